package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
)

// step is a step of a schedule.
type step struct {
	action  string
	replica string
	shards  int
	wait    time.Duration // after the step
}

func (s step) String() string {
	return fmt.Sprintf("%s %s %d %s", s.action, s.replica, s.shards, s.wait)
}

// steps generates schedules. Most replicas have the same number of shards.
func steps() *rapid.Generator[[]step] {
	counts := rapid.SampledFrom([]int{4, 4, 4, 4, 7, 1, 2})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			action: rapid.SampledFrom([]string{
				"start", "start", "start", "kill", "stop", "pause", "pause", "cut", "refuse", "lag", "lag", "heal", "lose answers", "settle",
			}).Draw(t, "action"),
			replica: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "replica"),
			shards:  counts.Draw(t, "shards"),
			wait:    time.Duration(rapid.IntRange(0, 8000).Draw(t, "milliseconds")) * time.Millisecond,
		}
	}), 1, 40)
}

// run makes a step. It returns the failures so far.
func (s *installation) run(one step) []string {
	r := s.replicas[one.replica]
	switch {
	case one.action == "settle":
		return s.settle()
	case one.action == "start" && r == nil:
		s.start(one.replica, one.shards)
	case one.action == "lose answers":
		s.registry.set(func() { s.registry.lostAcks = one.shards })
	case r == nil:
	case one.action == "kill":
		s.kill(one.replica)
	case one.action == "stop":
		r.heal()
		s.stop(one.replica)
	case one.action == "pause":
		r.pause()
	case one.action == "cut":
		r.set(func() { r.cut = true })
	case one.action == "refuse":
		r.set(func() { r.refuse = true })
	case one.action == "lag":
		r.set(func() { r.asOf = time.Now() })
	case one.action == "heal":
		r.heal()
	}
	time.Sleep(one.wait)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

func TestOneReplicaWritesForEachServiceWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schedule := append(steps().Draw(rt, "steps"), step{action: "settle"})
		var failures []string
		synctest.Test(t, func(*testing.T) {
			s := newInstallation()
			defer s.close()
			for _, one := range schedule {
				if failures = s.run(one); len(failures) > 0 {
					return
				}
			}
		})
		if len(failures) > 0 {
			rt.Fatal(strings.Join(failures[:min(len(failures), 5)], "\n"))
		}
	})
}

// bubble runs a test with an installation in virtual time.
func bubble(t *testing.T, test func(t *testing.T, s *installation)) {
	synctest.Test(t, func(t *testing.T) {
		s := newInstallation()
		defer s.close()
		test(t, s)
	})
}

// wantSettled fails the test if settle returns failures.
func wantSettled(t *testing.T, s *installation) {
	t.Helper()
	if failures := s.settle(); len(failures) > 0 {
		t.Fatal(strings.Join(failures, "\n"))
	}
}

// counts returns the number of shards that each replica holds.
func (s *installation) counts() map[string]int {
	all := map[string]int{}
	for name, r := range s.replicas {
		r.set(func() { all[name] = len(r.held) })
	}
	return all
}

func TestShardsMoveToAReplicaThatJoins(t *testing.T) {
	bubble(t, func(t *testing.T, s *installation) {
		s.start("a", 8)
		wantSettled(t, s)
		s.start("b", 8)
		wantSettled(t, s)
		if s.givenUp != 4 {
			t.Errorf("%d shards moved to the second replica, want 4", s.givenUp)
		}
		s.start("c", 8)
		wantSettled(t, s)
		if s.givenUp != 4+2 {
			t.Errorf("%d shards moved to the third replica, want 2", s.givenUp-4)
		}
		s.kill("b")
		wantSettled(t, s)
		if want := map[string]int{"a": 4, "c": 4}; s.givenUp != 4+2 || !maps.Equal(s.counts(), want) {
			t.Errorf("after a death %v, want %v; %d moves from replicas that live", s.counts(), want, s.givenUp-6)
		}
	})
}

// Two replicas that choose the same place join one after the other, which may move one shard.
func TestReplicasThatStartTogetherMoveOneShardAtMost(t *testing.T) {
	bubble(t, func(t *testing.T, s *installation) {
		for _, name := range []string{"a", "b", "c"} {
			s.start(name, 4)
		}
		wantSettled(t, s)
		if s.givenUp > 1 {
			t.Errorf("%d shards moved", s.givenUp)
		}
	})
}

func TestARollingRestartChangesTheNumberOfShardsAtItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *installation) {
		names := []string{"a", "b", "c"}
		before := 1
		for _, name := range names {
			s.start(name, before)
		}
		wantSettled(t, s)
		for _, shards := range []int{4, 7, 2, 1} {
			for i, name := range names {
				s.stop(name)
				r := s.start(name, shards)
				wantSettled(t, s)
				if i == len(names)-1 || before == 1 { // a single leader that stops may be followed by either
					continue
				}
				if got := s.count(); got != before {
					t.Errorf("%d shards after %d of 3 restarts from %d to %d", got, i+1, before, shards)
				}
				for _, part := range []string{fmt.Sprint("-shards is ", shards), fmt.Sprint("has ", before), "same number on all replicas"} {
					if !strings.Contains(r.waits, part) {
						t.Errorf("a replica that waits says %q, without %q", r.waits, part)
					}
				}
			}
			if got := s.count(); got != shards {
				t.Errorf("%d shards after all have %d", got, shards)
			}
			before = shards
		}
		if lease := s.registry.leases["endpointctl-shard-3"]; lease.GetSpec().GetShards() != 0 || !strings.HasPrefix(lease.GetSpec().GetHolderIdentity(), closedBy) {
			t.Errorf("a Lease that is not needed any more is %v", lease)
		}
	})
}

func (s *installation) count() int {
	return max(1, int(s.registry.leases["endpointctl"].GetSpec().GetShards()))
}

// A replica of a release without shards removes the number when it takes the Lease.
func TestShardsAreGivenUpIfAnEarlierReleaseLeads(t *testing.T) {
	bubble(t, func(t *testing.T, s *installation) {
		a, b := s.start("a", 4), s.start("b", 4)
		wantSettled(t, s)
		var old *corev1.Lease
		s.registry.set(func() {
			old = s.registry.leases["endpointctl"].CloneVT()
			old.Spec = &corev1.LeaseSpec{HolderIdentity: "old", LeaseDurationSeconds: 5, Epoch: old.GetSpec().GetEpoch()}
			s.registry.put(old, old.GetSpec().GetEpoch()+1)
		})
		time.Sleep(duration/4 + time.Millisecond)
		synctest.Wait()
		if len(a.held)+len(b.held) > 0 || !strings.Contains(a.waits, "has 1") {
			t.Errorf("they hold %d and %d shards, and the first says %q", len(a.held), len(b.held), a.waits)
		}
		wantSettled(t, s) // the earlier release has stopped
	})
}

func TestOneShardIsAsWithoutShards(t *testing.T) {
	bubble(t, func(t *testing.T, s *installation) {
		s.start("a", 1)
		wantSettled(t, s)
		before := s.registry.gets
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.registry.gets - before; n > 0 {
			t.Errorf("the leader has read Leases %d times in a minute", n)
		}
		if names := slices.Sorted(maps.Keys(s.registry.leases)); !slices.Equal(names, []string{"endpointctl"}) || s.registry.leases["endpointctl"].GetSpec().GetShards() != 0 {
			t.Errorf("Leases %v", s.registry.leases)
		}
	})
}

// A replica that asks a registry that is behind must not overlook a Lease that another replica has
// opened and taken since.
func TestTheNumberIsNotChangedOnAnOldView(t *testing.T) {
	bubble(t, func(t *testing.T, s *installation) {
		lease := func(name, holder string, shards int32) {
			s.registry.set(func() {
				old := s.registry.leases[name]
				next := &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}, Spec: &corev1.LeaseSpec{HolderIdentity: holder, LeaseDurationSeconds: 5, Shards: shards}}
				s.registry.put(next, old.GetSpec().GetEpoch()+1)
			})
		}
		lease("endpointctl", "", 4)
		s.asOf = time.Now()
		time.Sleep(time.Millisecond)
		lease("endpointctl-shard-1", "x", 4)
		s.start("b", 1)
		for range 20 { // x renews its lease
			time.Sleep(time.Second)
			lease("endpointctl-shard-1", "x", 4)
			synctest.Wait()
			if n := s.counts()["b"]; n > 0 {
				t.Fatalf("b leads beside x")
			}
		}
		if got := s.count(); got != 4 {
			t.Errorf("%d shards", got)
		}
	})
}
