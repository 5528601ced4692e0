package nodewatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

// fakeNodes holds nodes, and is their registry.
type fakeNodes struct {
	registryv1.NodeServiceClient

	mu     sync.Mutex
	nodes  map[string]*corev1.Node
	writes int
	fail   bool
}

func (f *fakeNodes) UpdateNodeStatus(_ context.Context, req *registryv1.UpdateNodeStatusRequest, _ ...grpc.CallOption) (*registryv1.UpdateNodeStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	if f.fail {
		return nil, errors.New("no")
	}
	f.nodes[req.GetNode().GetMetadata().GetName()] = req.GetNode()
	return &registryv1.UpdateNodeStatusResponse{}, nil
}

func (f *fakeNodes) all() []*corev1.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*corev1.Node
	for _, n := range f.nodes {
		all = append(all, n)
	}
	return all
}

func (f *fakeNodes) ready(name string) corev1.ConditionStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ready(f.nodes[name]).GetStatus()
}

const (
	grace   = 10 * time.Second
	yes     = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	unknown = corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN
)

func newFakeNodes(names ...string) *fakeNodes {
	f := &fakeNodes{nodes: map[string]*corev1.Node{}}
	for _, name := range names {
		f.nodes[name] = &corev1.Node{
			Metadata: &corev1.ObjectMeta{Name: name},
			Status: &corev1.NodeStatus{AgentVersion: "v1", Conditions: []*corev1.Condition{
				{Type: "DiskPressure", Status: yes}, {Type: "Ready", Status: yes},
			}},
		}
	}
	return f
}

// startWatch runs a watch as leader.
func startWatch(t *testing.T, f *fakeNodes) (*Watch, func()) {
	w := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Nodes: f.all, Grace: grace})
	w.nodes = f
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { w.Lead(ctx) })
	return w, func() { cancel(); wg.Wait() }
}

// sendHeartbeats sends heartbeats of nodes for a time.
func sendHeartbeats(w *Watch, span time.Duration, names ...string) {
	for begin := time.Now(); time.Since(begin) < span; time.Sleep(2 * time.Second) {
		for _, name := range names {
			w.RecordHeartbeat(&nodeagentv1.Heartbeat{Node: name})
		}
	}
	synctest.Wait()
}

func TestASilentNodeIsNotReadyUntilItIsHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("a", "b", "by-hand")
		f.nodes["by-hand"].Status.AgentVersion = ""
		w, stop := startWatch(t, f)
		defer stop()
		sendHeartbeats(w, grace, "a", "b")
		sendHeartbeats(w, grace-2*time.Second, "a")
		if f.ready("b") != yes {
			t.Error("b is out before the grace is over")
		}
		sendHeartbeats(w, 10*time.Second, "a")
		if f.ready("a") != yes || f.ready("b") != unknown || f.ready("by-hand") != yes {
			t.Errorf("a is %v, b is %v, by-hand is %v", f.ready("a"), f.ready("b"), f.ready("by-hand"))
		}
		if n := len(f.nodes["b"].GetStatus().GetConditions()); n != 2 || f.writes != 1 {
			t.Errorf("%d conditions after %d writes", n, f.writes)
		}
		sendHeartbeats(w, 10*time.Second, "a", "b")
		if f.ready("b") != yes || f.writes != 2 {
			t.Errorf("b is %v after it came back, with %d writes", f.ready("b"), f.writes)
		}
	})
}

func TestWhoHearsNobodyDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("a", "b")
		w, stop := startWatch(t, f)
		defer stop()
		time.Sleep(10 * grace)
		sendHeartbeats(w, grace, "a", "b")
		time.Sleep(10 * grace)
		sendHeartbeats(w, grace-2*time.Second, "a") // b comes back later: its silence counts from now
		if f.writes != 0 {
			t.Errorf("%d writes", f.writes)
		}
		sendHeartbeats(w, 10*time.Second, "a")
		if f.ready("a") != yes || f.ready("b") != unknown {
			t.Errorf("a is %v, b is %v", f.ready("a"), f.ready("b"))
		}
	})
}

func TestWhatWasNotWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("a", "b")
		f.fail = true
		w, stop := startWatch(t, f)
		defer stop()
		sendHeartbeats(w, 2*grace, "a")
		f.mu.Lock()
		f.fail = false
		f.mu.Unlock()
		sendHeartbeats(w, 10*time.Second, "a")
		if f.ready("b") != unknown {
			t.Errorf("b is %v", f.ready("b"))
		}
	})
}

func TestWhatSomebodyElseSaysOfANodeStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("a", "b")
		ready(f.nodes["b"]).Status, ready(f.nodes["b"]).Reason = unknown, "Maintenance"
		w, stop := startWatch(t, f)
		defer stop()
		sendHeartbeats(w, 2*grace, "a", "b")
		sendHeartbeats(w, 2*grace, "a")
		if f.writes != 0 || ready(f.nodes["b"]).GetReason() != "Maintenance" {
			t.Errorf("b is %v after %d writes", f.nodes["b"], f.writes)
		}
	})
}

// TestAMassLapseIsHeld checks that if more than half of the nodes are silent, they stay in service
// for four graces, and that exactly half of them do not.
func TestAMassLapseIsHeld(t *testing.T) {
	for _, tc := range []struct {
		silent []string
		held   bool
	}{
		{[]string{"e"}, false},
		{[]string{"d", "e"}, false},
		{[]string{"c", "d", "e"}, true},
		{[]string{"b", "c", "d", "e"}, true},
	} {
		t.Run(strings.Join(tc.silent, ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := []string{"a", "b", "c", "d", "e"}
				f := newFakeNodes(all...)
				w, stop := startWatch(t, f)
				defer stop()
				// The heartbeats are spread, so that the nodes do not become late at the same
				// moment.
				for i, name := range all {
					time.AfterFunc(time.Duration(i)*300*time.Millisecond, func() { w.RecordHeartbeat(&nodeagentv1.Heartbeat{Node: name}) })
				}
				time.Sleep(2 * time.Second)
				sendHeartbeats(w, 2*grace, all...)
				for i, name := range tc.silent {
					time.AfterFunc(time.Duration(i)*300*time.Millisecond, func() { w.RecordHeartbeat(&nodeagentv1.Heartbeat{Node: name}) })
				}
				rest := all[:len(all)-len(tc.silent)]
				sendHeartbeats(w, grace+4*time.Second, rest...)
				if got := f.writes == 0; got != tc.held {
					t.Errorf("after the grace %d nodes were taken out of service, held %t", f.writes, tc.held)
				}
				sendHeartbeats(w, 4*grace, rest...)
				for _, name := range tc.silent {
					if f.ready(name) != unknown {
						t.Errorf("%s is %v after four graces", name, f.ready(name))
					}
				}
				if f.writes != len(tc.silent) {
					t.Errorf("%d writes", f.writes)
				}
			})
		})
	}
}

// TestNodesThatAreLongGoneDoNotHoldOthers checks that nodes that were switched off earlier, one
// after the other, and not deleted do not count as part of a mass lapse.
func TestNodesThatAreLongGoneDoNotHoldOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("a", "b", "gone-1", "gone-2", "gone-3")
		w, stop := startWatch(t, f)
		defer stop()
		for _, names := range [][]string{{"a", "b", "gone-1", "gone-2", "gone-3"}, {"a", "b", "gone-1", "gone-2"}, {"a", "b", "gone-1"}, {"a", "b"}} {
			sendHeartbeats(w, 2*grace, names...)
		}
		sendHeartbeats(w, 2*grace, "a", "b")
		if f.writes != 3 {
			t.Fatalf("%d writes, want three", f.writes)
		}
		sendHeartbeats(w, grace+4*time.Second, "a")
		if f.ready("b") != unknown {
			t.Errorf("b is %v", f.ready("b"))
		}
	})
}

// TestARestartOfTheTransportTakesNobodyOut checks that no node is taken out of service if no
// heartbeat arrives for less than the time after which that is noticed, and the agents return one
// after the other.
func TestARestartOfTheTransportTakesNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"a", "b", "c", "d", "e", "f"}
		f := newFakeNodes(all...)
		w, stop := startWatch(t, f)
		defer stop()
		sendHeartbeats(w, 2*grace, all...)
		time.Sleep(grace/2 - 2*time.Second)
		for i := range all { // within two graces
			sendHeartbeats(w, grace/3, all[:i+1]...)
		}
		sendHeartbeats(w, grace, all...)
		if f.writes != 0 {
			t.Errorf("%d writes", f.writes)
		}
	})
}

// TestASlowAgentHasALongerGrace checks that the interval in an agent's heartbeats extends its
// grace, up to a bound.
func TestASlowAgentHasALongerGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNodes("a", "slow", "liar")
		w, stop := startWatch(t, f)
		defer stop()
		slow := func() {
			w.RecordHeartbeat(&nodeagentv1.Heartbeat{Node: "slow", IntervalSeconds: 8})
			w.RecordHeartbeat(&nodeagentv1.Heartbeat{Node: "liar", IntervalSeconds: 1e9})
		}
		for range 10 {
			slow()
			sendHeartbeats(w, 8*time.Second, "a")
		}
		sendHeartbeats(w, 16*time.Second, "a")
		if f.writes != 0 {
			t.Errorf("%d writes", f.writes)
		}
		sendHeartbeats(w, 12*time.Second, "a")
		if f.ready("slow") != unknown || f.ready("liar") != yes {
			t.Errorf("slow is %v, liar is %v", f.ready("slow"), f.ready("liar"))
		}
		sendHeartbeats(w, 4*maxInterval, "a")
		if f.ready("liar") != unknown {
			t.Errorf("liar is %v", f.ready("liar"))
		}
	})
}
