package syncloop

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/internal/view"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// stalled is a data plane with calls that block until the test continues them. It may refuse the
// shared rules.
type stalled struct {
	dataplane.Plane
	hold   chan struct{} // nil: calls do not block
	refuse atomic.Bool
}

func (p *stalled) Name() string { return "stalled" }

func (p *stalled) Reach(uint64) {}

func (p *stalled) Reached() uint64 { return 0 }

func (p *stalled) Programmed(plan.Key) *plan.VirtualServer { return nil }

func (p *stalled) State(context.Context) (*plan.State, error) { return &plan.State{}, nil }

func (p *stalled) Apply(_ context.Context, changed plan.Changes) (failed []dataplane.Failure) {
	if p.hold != nil {
		<-p.hold
	}
	if changed.Sources != nil && p.refuse.Load() {
		failed = append(failed, dataplane.Failure{Frontend: dataplane.SharedRules, Err: context.DeadlineExceeded})
	}
	return failed
}

// runStalled runs a syncer on a data plane within a bubble.
func runStalled(t *testing.T, plane *stalled) (s *Syncer, stop func()) { return runSyncer(t, plane) }

// runSyncer runs a syncer with one service on any data plane within a bubble.
func runSyncer(t *testing.T, plane dataplane.Plane) (s *Syncer, stop func()) {
	v := view.New("here", nil)
	svc := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}}
	v.Apply([]changes.Change{{Kind: "Service", Key: object.KeyOf(svc), New: svc}}, 1)
	s = newSyncer(v, plane, &recorded{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	s.Changed(tracing.Span{})
	synctest.Wait()
	return s, func() { cancel(); wg.Wait() }
}

// TestAQueueThatStandsIsUnhealthy checks the effect of, for example, a netlink socket that does not
// answer.
func TestAQueueThatStandsIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &stalled{hold: make(chan struct{})}
		s, stop := runStalled(t, plane)
		defer stop()
		time.Sleep(unhealthyAfter - time.Second)
		if !s.Healthy() || s.QueueAge() != unhealthyAfter-time.Second {
			t.Errorf("healthy %t with a queue of %s", s.Healthy(), s.QueueAge())
		}
		time.Sleep(2 * time.Second)
		if s.Healthy() {
			t.Errorf("healthy with a queue of %s", s.QueueAge())
		}
		if p := s.progress(); p.applied != 0 { // returned without waiting for the plane
			t.Errorf("progress %+v", p)
		}
		close(plane.hold)
		synctest.Wait()
		if !s.Healthy() || s.QueueAge() != 0 || s.progress().applied != 1 {
			t.Errorf("healthy %t, queue %s, progress %+v after the plane went on", s.Healthy(), s.QueueAge(), s.progress())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !s.Healthy() {
			t.Error("unhealthy because nothing changed")
		}
	})
}

// TestSharedRulesThatFailForLongAreUnhealthy checks that shared rules that fail for long make the
// node unhealthy, and that a single failing service does not.
func TestSharedRulesThatFailForLongAreUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &stalled{}
		plane.refuse.Store(true)
		s, stop := runStalled(t, plane)
		defer stop()
		s.SetFacts(plan.Facts{Node: "here"}, plan.Sources{Node: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
		time.Sleep(unhealthyAfter - 10*time.Second)
		if !s.Healthy() {
			t.Error("unhealthy at once")
		}
		time.Sleep(20 * time.Second)
		if s.Healthy() {
			t.Error("healthy though shared rules have failed for long")
		}
		plane.refuse.Store(false)
		time.Sleep(2 * retryMax)
		synctest.Wait()
		if !s.Healthy() || s.progress().node != "" {
			t.Errorf("progress %+v after the rules were taken", s.progress())
		}
	})
}
