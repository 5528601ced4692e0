package changes_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// forged checks the numbers of forged changes, messages and heads that the follower has reported.
func (d *driven) forged(inChanges, inMessage, inHead int) {
	d.t.Helper()
	const name = "portolan_changes_forged_total"
	const help = "Times that NATS delivered what the registry's log does not have: changes (forged, altered or left out), message (not of the revision that it says) or head (another end of the log)."
	want := fmt.Sprintf("# HELP %[1]s %[2]s\n# TYPE %[1]s counter\n%[1]s{what=\"changes\"} %[3]d\n%[1]s{what=\"head\"} %[5]d\n%[1]s{what=\"message\"} %[4]d\n",
		name, help, inChanges, inMessage, inHead)
	if err := testutil.GatherAndCompare(d.metrics, strings.NewReader(want), name); err != nil {
		d.t.Error(err)
	}
}

// verified compares the changes from NATS with the log.
func (d *driven) verified() {
	d.t.Helper()
	d.must(d.Verify(d.t.Context()))
}

// copyOf returns a copy of a message, which a test alters.
func copyOf(m *nats.Msg) *nats.Msg {
	altered := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}}
	maps.Copy(altered.Header, m.Header)
	return altered
}

// with returns the message of a change with another object.
func (d *driven) with(m *nats.Msg, alter func(change *registryv1.Change)) *nats.Msg {
	d.t.Helper()
	change := &registryv1.Change{}
	d.must(change.UnmarshalVT(m.Data))
	alter(change)
	payload, err := change.MarshalVT()
	d.must(err)
	altered := copyOf(m)
	altered.Data = payload
	return altered
}

// TestTampering lets an attacker with full power over NATS forge, alter, replace, suppress, repeat and
// swap messages. After the next comparisons with the registry's log the view must be equal to the log,
// and every attack that made the view differ must have been reported.
func TestTampering(t *testing.T) {
	label := func(change *registryv1.Change) { change.GetObject().GetService().Metadata.Labels["app"] = "evil" }
	for name, test := range map[string]struct {
		attack                 func(d *driven)
		changes, message, head int // numbers of reports; 0: the attack did not change the view
	}{
		"a forged new revision": {attack: func(d *driven) {
			forged := d.with(d.sent(6), func(c *registryv1.Change) { c.Revision = 7; label(c) })
			forged.Header.Set("Nats-Sequence", "7")
			d.receive(d.sent(6), forged)
		}, changes: 1},
		"an altered label": {attack: func(d *driven) { d.receive(d.with(d.sent(6), label)) }, changes: 1},
		"an altered type": {attack: func(d *driven) {
			d.receive(d.with(d.sent(6), func(c *registryv1.Change) { c.Type = registryv1.ChangeType_CHANGE_TYPE_DELETE }))
		}, changes: 1},
		"an altered trace": {attack: func(d *driven) { d.receive(d.with(d.sent(6), func(c *registryv1.Change) { c.Traceparent = "x" })) }, changes: 1},
		"an altered kind in the subject": {attack: func(d *driven) {
			m := copyOf(d.sent(6))
			m.Subject = strings.Replace(m.Subject, ".Service.", ".Pod.", 1)
			m.Header.Set("Nats-Subject", strings.Replace(m.Header.Get("Nats-Subject"), ".Service.", ".Pod.", 1))
			d.receive(m)
		}, message: 1},
		"a field twice in the payload": {attack: func(d *driven) {
			m := copyOf(d.sent(6))
			change := &registryv1.Change{Object: object.Wrap(&corev1.Service{Metadata: &corev1.ObjectMeta{Labels: map[string]string{"app": "evil"}}})}
			more, err := change.MarshalVT()
			d.must(err)
			m.Data = append(append([]byte{}, m.Data...), more...)
			d.receive(m)
		}, changes: 1},
		"a replay of an older change as the next one": {attack: func(d *driven) {
			d.receive(d.with(d.sent(1), func(c *registryv1.Change) { c.Revision = 6 }))
			m := d.with(d.sent(1), func(c *registryv1.Change) { c.Revision = 6 })
			m.Header.Set("Nats-Sequence", "6")
			d.receive(m)
		}, changes: 1},
		"a replay with its own revision": {attack: func(d *driven) { d.receive(d.sent(6), d.sent(6), d.sent(1)) }},
		"two changes in each other's place": {attack: func(d *driven) {
			first := d.with(d.sent(7), func(c *registryv1.Change) { c.Revision = 6 })
			first.Header.Set("Nats-Sequence", "6")
			second := d.with(d.sent(6), func(c *registryv1.Change) { c.Revision = 7 })
			second.Header.Set("Nats-Sequence", "7")
			d.receive(first, second)
		}, changes: 1},
		"two messages in the wrong order": {attack: func(d *driven) { d.receive(d.sent(7), d.sent(6)) }},
		"a change of another encoding": {attack: func(d *driven) {
			m := d.with(d.sent(6), label)
			m.Header.Del("Portolan-Encoding")
			d.receive(m)
		}},
		"a change marked as too large": {attack: func(d *driven) {
			m := copyOf(d.sent(6))
			m.Header.Set("Portolan-Elided", "1")
			d.receive(m)
		}},
		"a change marked as a pod of another node": {attack: func(d *driven) {
			m := copyOf(d.sent(6))
			m.Header.Set("Portolan-Elided", "1")
			m.Header.Set("Portolan-Node", "n2")
			d.receive(m)
		}, changes: 1},
		"a change marked as a pod of no node": {attack: func(d *driven) {
			m := copyOf(d.sent(6))
			m.Header.Set("Portolan-Elided", "1")
			m.Header.Set("Portolan-Node", "")
			d.receive(m)
		}, changes: 1},
		"everything suppressed, and a bookmark of the head before": {attack: func(d *driven) { d.receive(d.mark(5)) }},
		"a bookmark of a head that the log does not have": {attack: func(d *driven) {
			d.receive(d.sent(6), d.sent(7), d.sent(8), d.mark(1000))
			d.receive(d.mark(1000))
		}, head: 1},
		"a change far beyond the log": {attack: func(d *driven) {
			m := d.with(d.sent(8), func(c *registryv1.Change) { c.Revision = 1 << 40 })
			m.Header.Set("Nats-Sequence", fmt.Sprint(1<<40))
			d.receive(m)
		}, head: 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := following(t, 3)
			d.replay.repeats = true
			test.attack(d)
			d.verified()
			d.forged(test.changes, test.message, test.head)
			d.must(d.Tick(t.Context()))
			d.at(8)
		})
	}
}

// TestGarbageIsReported checks that a message that is no change of its revision is not believed, and
// is reported.
func TestGarbageIsReported(t *testing.T) {
	d := following(t, 1)
	garbage := copyOf(d.sent(6))
	garbage.Data = []byte("garbage")
	d.receive(garbage)
	d.at(6)
	d.forged(0, 1, 0)
}

// TestTrueChangesAreVerified checks that changes of all forms that the relay sends are verified, with
// changes in between that were read from the log.
func TestTrueChangesAreVerified(t *testing.T) {
	d := following(t, 5)
	d.keep = func(o object.Object) bool { p, ok := o.(*corev1.Pod); return !ok || p.GetSpec().GetNodeName() == "n1" }
	d.receive(d.sent(6), d.sent(7), d.sent(9)) // 8 is lost
	d.asked(1, 0)
	putMany(d.log, 1)
	d.receive(d.sent(11))
	for _, nodeName := range []string{"n2", "n1", ""} { // the pod of n1 is read from the log
		revision := d.log.Put(&corev1.Pod{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "pod-of-" + nodeName},
			Spec:     &corev1.PodSpec{NodeName: nodeName, Containers: []*corev1.Container{{Command: []string{"serve"}}}},
		})
		m := copyOf(d.sent(revision))
		m.Data = nil
		m.Header.Set("Portolan-Elided", "1")
		m.Header.Set("Portolan-Node", nodeName)
		d.receive(m)
	}
	d.asked(1, 0)
	putMany(d.log, 1)
	d.receive(d.sent(15))
	if _, revision := d.Position(); revision != 15 {
		t.Fatalf("the view is at %d", revision)
	}
	d.verified()
	d.asked(1, 0)
	d.forged(0, 0, 0)
	d.snapshots(1, 0, 0)
}

// TestVerifyOfALogThatIsGone checks that a range that the log no longer has, or that belongs to
// another epoch, leads to a snapshot without a report.
func TestVerifyOfALogThatIsGone(t *testing.T) {
	pruned := following(t, 3)
	pruned.receive(pruned.sent(6), pruned.sent(7))
	pruned.log.Prune(8)
	pruned.verified()
	pruned.at(8)
	pruned.forged(0, 0, 0)
	pruned.snapshots(1, 1, 0)

	renewed := following(t, 3)
	renewed.receive(renewed.sent(6), renewed.sent(7))
	if _, err := renewed.log.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	renewed.verified()
	renewed.at(8)
	renewed.forged(0, 0, 0)
	renewed.snapshots(1, 0, 1)
}

// TestNATSIsDistrustedForATime checks that after a forged change a follower takes nothing from NATS
// and reads the log, and that it trusts NATS again later.
func TestNATSIsDistrustedForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changestest.New(t)
		putMany(log, 5)
		d := drive(t, log)
		d.config(func(cfg *changes.FollowerConfig) {
			cfg.BookmarkEvery, cfg.DistrustFor = 2*time.Second, time.Minute
		})
		d.begin()
		putMany(log, 3)
		label := func(change *registryv1.Change) { change.GetObject().GetService().Metadata.Labels["app"] = "evil" }
		d.receive(d.with(d.sent(6), label))
		d.verified()
		d.at(8)
		if warnings := d.health.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0], "revisions 6 to 6") || d.health.Ready() != nil {
			t.Errorf("warnings %q, ready: %v", warnings, d.health.Ready())
		}
		putMany(log, 3)
		d.receive(d.with(d.sent(9), label), d.mark(9))
		d.at(8)
		time.Sleep(3 * time.Second)
		d.must(d.Tick(t.Context()))
		d.at(11)
		time.Sleep(time.Minute)
		d.must(d.Tick(t.Context()))
		if warnings := d.health.Warnings(); len(warnings) > 0 {
			t.Errorf("after a minute: %q", warnings)
		}
		putMany(log, 1)
		d.receive(d.sent(12))
		d.at(12)
		d.verified()
		d.forged(1, 0, 0)
	})
}

// TestSuppressedChangesAreRead suppresses all messages except bookmarks of an old head. The follower
// must read the changes within two bookmark periods after a comparison, and after StaleAfter it must
// report the bookmarks.
func TestSuppressedChangesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changestest.New(t)
		putMany(log, 5)
		d := drive(t, log)
		d.config(func(cfg *changes.FollowerConfig) {
			cfg.BookmarkEvery, cfg.StaleAfter, cfg.DistrustFor = 2*time.Second, 30*time.Second, time.Minute
		})
		d.begin()
		putMany(log, 3)
		for range 34 { // seconds
			d.receive(d.mark(5))
			d.must(d.Tick(t.Context()))
			time.Sleep(time.Second)
		}
		d.at(5)
		d.verified()
		for range 4 {
			d.must(d.Tick(t.Context()))
			time.Sleep(time.Second)
			d.receive(d.mark(5))
		}
		d.at(8)
		d.forged(0, 0, 0)
		for range 70 {
			d.verified()
			d.must(d.Tick(t.Context()))
			time.Sleep(time.Second)
			if len(d.health.Warnings()) == 0 {
				d.receive(d.mark(5))
			}
		}
		d.forged(0, 0, 1)
	})
}

// TestUnverifiedChangesAreLimited checks that a follower stops taking changes from NATS if the registry
// does not verify them, and reads the log as soon as the registry answers.
func TestUnverifiedChangesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := changestest.New(t)
		putMany(log, 5)
		d := drive(t, log)
		d.config(func(cfg *changes.FollowerConfig) { cfg.StaleAfter = time.Minute })
		d.begin()
		putMany(log, 3)
		d.registry.down.Store(true)
		d.receive(d.sent(6))
		d.verified()
		time.Sleep(time.Minute)
		d.receive(d.sent(7))
		d.at(7)
		time.Sleep(time.Second)
		d.receive(d.sent(8))
		d.at(7)
		d.registry.down.Store(false)
		d.must(d.Tick(t.Context()))
		d.at(8)
		d.verified()
		d.forged(0, 0, 0)
	})
}

// TestManyChangesAreVerifiedInTime checks that a range that is as long as one call may compare is
// verified before more is taken.
func TestManyChangesAreVerifiedInTime(t *testing.T) {
	d := following(t, 0)
	d.asked(0, 0)
	putMany(d.log, changes.MaxVerify+10)
	for revision := uint64(6); revision <= d.log.Revision(); revision++ {
		d.receive(d.sent(revision))
	}
	d.at(d.log.Revision())
	d.asked(1, 0)
	d.verified()
	d.forged(0, 0, 0)
}

// TestResync checks that Resync counts the objects in which the view was wrong, and no others.
func TestResync(t *testing.T) {
	for name, test := range map[string]struct {
		before func(d *driven)
		want   int
	}{
		"nothing wrong": {func(*driven) {}, 0},
		"behind":        {func(d *driven) { putMany(d.log, 20); d.log.Delete(serviceKey("s1.example")) }, 0},
		"forged and behind": {func(d *driven) {
			putMany(d.log, 1)
			d.receive(d.with(d.sent(6), func(c *registryv1.Change) {
				svc := c.GetObject().GetService()
				svc.Metadata.Name, svc.Metadata.Labels["app"] = "evil", "evil"
			}))
			// s5.example is missing, and evil is too much.
		}, 2},
		"wrong without a trace": {func(d *driven) {
			evil := service("evil", 1)
			d.Corrupt(evil)
			d.replay.objects[object.KeyOf(evil)] = evil
		}, 1},
		"pruned": {func(d *driven) { putMany(d.log, 20); d.log.Prune(25) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := following(t, 0)
			test.before(d)
			got, err := d.Compare(t.Context())
			if err != nil || got != test.want {
				t.Errorf("%d objects corrected, want %d; %v", got, test.want, err)
			}
			d.at(d.log.Revision())
		})
	}
	t.Run("no registry", func(t *testing.T) {
		d := following(t, 0)
		d.registry.down.Store(true)
		if _, err := d.Compare(t.Context()); err == nil {
			t.Error("compared without a registry")
		}
	})
}

// TestRepeatedMessagesAskNothing repeats messages that the view has, while a later one was not compared
// with the log yet. The registry is not asked because of them.
func TestRepeatedMessagesAskNothing(t *testing.T) {
	d := following(t, 1)
	d.receive(d.sent(6))
	d.receive(d.sent(3), d.sent(5), d.sent(6))
	d.asked(0, 0)
	d.at(6)
}

// TestResyncOfARunningFollower checks Resync and Check from another goroutine than the follower's,
// with a real NATS server on which an attacker may publish everything.
func TestResyncOfARunningFollower(t *testing.T) {
	log := changestest.New(t)
	f := log.Follow(changes.FollowerConfig{NATS: log.NATS(), VerifyEvery: time.Hour})
	putMany(log, 5)
	log.WaitFor(f)
	epoch, _, _, _ := log.Head(t.Context())
	evil := service("evil", 1)
	evil.Metadata.Namespace, evil.Metadata.ResourceVersion = "default", 6
	change := &registryv1.Change{Revision: 6, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, Object: object.Wrap(evil)}
	payload, err := change.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	attacker := log.NATS()
	if err := attacker.PublishMsg(republished(t, epoch, changes.LoggedChange{Change: change, Payload: payload})); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the forged object in the view", func() error {
		if f.View().Get(object.KeyOf(evil)) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	if err := f.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := same(stateOf(log), viewOf(f)); err != nil {
		t.Error(err)
	}
	if corrected, err := f.Resync(t.Context()); err != nil || corrected != 0 {
		t.Errorf("%d corrected after the repair, %v", corrected, err)
	}
}

// TestWhateverAnAttackerDoes lets an attacker alter any messages at random. Whenever the follower
// has compared its changes with the log, its view must be the log's.
func TestWhateverAnAttackerDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drive(t, changestest.New(t))
		d.replay.repeats = true
		d.begin()
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			putMany(d.log, rapid.IntRange(0, 3).Draw(rt, "changes"))
			_, from := d.Position()
			for revision := from + 1; revision <= d.log.Revision(); revision++ {
				d.receive(alterAtRandom(rt, d, d.sent(revision)))
			}
			if rapid.Bool().Draw(rt, "verify") {
				d.verified()
				epoch, revision := d.Position()
				if now, head, _, _ := d.log.Head(t.Context()); epoch != now || revision > head {
					rt.Fatalf("verified at %d of %s, the log is at %d of %s", revision, epoch, head, now)
				} else if revision == head {
					d.must(same(stateOf(d.log), viewOf(d.Follower)))
				}
			}
		}
		d.verified()
		d.must(d.Tick(t.Context()))
		d.must(d.Tick(t.Context()))
		d.at(d.log.Revision())
	})
}

// alterAtRandom returns the message, or one that an attacker made of it.
func alterAtRandom(rt *rapid.T, d *driven, m *nats.Msg) *nats.Msg {
	switch rapid.IntRange(0, 7).Draw(rt, "attack") {
	case 0:
		return d.with(m, func(c *registryv1.Change) { c.GetObject().GetService().Metadata.Labels["app"] = "evil" })
	case 1:
		return d.with(m, func(c *registryv1.Change) { c.Type = registryv1.ChangeType_CHANGE_TYPE_DELETE })
	case 2:
		forged := d.with(m, func(c *registryv1.Change) { c.Revision++ })
		forged.Header.Set("Nats-Sequence", strconv.FormatUint(d.log.Revision()+1, 10))
		return forged
	case 3:
		forged := copyOf(m)
		forged.Header.Set("Portolan-Elided", "1")
		forged.Header.Set("Portolan-Node", rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(rt, "node"))
		return forged
	case 4:
		return d.mark(rapid.Uint64Range(0, d.log.Revision()+5).Draw(rt, "head"))
	}
	return m
}

// BenchmarkReceive measures a message of a service from NATS to the view.
func BenchmarkReceive(b *testing.B) {
	log := changestest.New(b)
	log.Put(service("a", 1))
	follower, err := changes.NewFollower(changes.FollowerConfig{
		Registry: dial(log), Prefix: changestest.Prefix, Log: kittest.Logger(b), Apply: func(context.Context, []changes.Change, uint64) error { return nil },
	})
	if err == nil {
		err = follower.Begin(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	const messages = 5_000
	for i := range messages {
		log.Put(service("a", i))
	}
	all, err := log.After(b.Context(), 1, messages)
	if err != nil {
		b.Fatal(err)
	}
	queue := make([]*nats.Msg, messages)
	for i, change := range all {
		queue[i] = republished(b, "epoch-1", change)
	}
	b.SetBytes(int64(len(queue[0].Data)))
	for i := 0; b.Loop(); i++ {
		if i%messages == 0 {
			b.StopTimer()
			follower.Rewind(1)
			b.StartTimer()
		}
		if err := follower.Receive(b.Context(), queue[i%messages]); err != nil {
			b.Fatal(err)
		}
	}
}

// countingLog counts the changes that are read.
type countingLog struct {
	changes.Log
	read atomic.Int64
}

func (l *countingLog) After(ctx context.Context, revision uint64, limit int) ([]changes.LoggedChange, error) {
	logged, err := l.Log.After(ctx, revision, limit)
	l.read.Add(int64(len(logged)))
	return logged, err
}

// TestTheVerifierReadsNothingThatTheRelayHasRead compares changes of a running relay.
func TestTheVerifierReadsNothingThatTheRelayHasRead(t *testing.T) {
	const total = 1000
	log := changestest.New(t)
	counting := &countingLog{Log: log}
	conn := &capture{ClientConnInterface: dial(log)}
	d := drive(t, log)
	d.config(func(cfg *changes.FollowerConfig) { cfg.Registry = conn })
	d.begin()
	_, url := kittest.NATS(t)
	verifier := changes.NewVerifier(counting)
	kittest.Run(t, "relay", relayOf(t, log, url, func(cfg *changes.RelayConfig) { cfg.Log, cfg.Verifier = counting, verifier }).Run)
	js := jetStream(t, url)
	waitForStreamAt(t, js, log, 0)
	putMany(log, total)
	waitForStreamAt(t, js, log, total)
	logged, err := log.After(t.Context(), 0, total)
	d.must(err)
	for _, change := range logged {
		d.must(d.Receive(t.Context(), republished(t, "epoch-1", change)))
	}
	d.must(d.Verify(t.Context()))
	before := counting.read.Load()
	answer, err := verifier.Verify(t.Context(), conn.request)
	if err != nil || !answer.GetMatches() || len(conn.request.GetTaken()) != total {
		t.Errorf("%d changes compared: %v, %v", len(conn.request.GetTaken()), answer, err)
	}
	if n := counting.read.Load() - before; n != 0 {
		t.Errorf("the verifier read %d changes", n)
	}
	conn.request.Digest[0]++
	if answer, err := verifier.Verify(t.Context(), conn.request); err != nil || answer.GetMatches() {
		t.Errorf("another digest: %v, %v", answer, err)
	}
}
