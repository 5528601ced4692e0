package syncloop

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/tracing"
)

// inherited is a data plane with the state of an earlier process.
type inherited struct {
	stalled
	reached uint64
	state   *plan.State
	applied atomic.Int32 // number of changes
	planned atomic.Uint64
}

func (p *inherited) Reached() uint64                            { return p.reached }
func (p *inherited) Reach(revision uint64)                      { p.planned.Store(revision) }
func (p *inherited) State(context.Context) (*plan.State, error) { return p.state, nil }

func (p *inherited) Apply(_ context.Context, changed plan.Changes) []dataplane.Failure {
	p.applied.Add(int32(len(changed.Frontends)))
	if changed.Sources != nil {
		p.applied.Add(1)
	}
	return nil
}

// TestPlansDoNotTakeTheNodeBack checks that plans for a view older than the revision in force wait
// for the registry, and for at most maxCatchUp if the registry's own view is older, because it may
// have been restored from a backup.
func TestPlansDoNotTakeTheNodeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &inherited{reached: 5, state: &plan.State{}}
		s, stop := runSyncer(t, plane) // its view is of revision 1
		defer stop()
		time.Sleep(time.Hour)
		if planned := plane.planned.Load(); planned != 0 || !s.Healthy() {
			t.Errorf("revision %d was planned from the disk; healthy: %t", planned, s.Healthy())
		}
		s.live.Store(true)
		s.view.Apply(nil, 4)
		s.Changed(tracing.Span{})
		time.Sleep(maxCatchUp - time.Second)
		if planned := plane.planned.Load(); planned != 0 {
			t.Errorf("revision %d was planned at once", planned)
		}
		time.Sleep(2 * time.Second)
		if planned := plane.planned.Load(); planned != 4 || s.progress().applied != 4 {
			t.Errorf("revision %d was planned after %s, %d is applied", planned, maxCatchUp, s.progress().applied)
		}
	})
}

// TestPlansGoOnOnceTheViewHasCaughtUp checks that an agent does not wait longer than necessary.
func TestPlansGoOnOnceTheViewHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &inherited{reached: 5, state: &plan.State{}}
		s, stop := runSyncer(t, plane)
		defer stop()
		s.live.Store(true)
		s.view.Apply([]changes.Change{}, 5)
		s.Changed(tracing.Span{})
		synctest.Wait()
		if planned := plane.planned.Load(); planned != 5 {
			t.Errorf("revision %d was planned, want 5", planned)
		}
	})
}

// TestAuditLeavesWhatAnEarlierAgentKnew checks that a server in force that is not planned is not
// drift until the registry has answered.
func TestAuditLeavesWhatAnEarlierAgentKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &plan.VirtualServer{}
		plane := &inherited{state: &plan.State{Servers: map[plan.Key]*plan.VirtualServer{v.Key: v}}}
		s, stop := runSyncer(t, plane)
		defer stop()
		before := plane.applied.Load()
		found, err := s.Audit(t.Context())
		if err != nil || len(found) > 0 || plane.applied.Load() != before {
			t.Errorf("the audit repaired %q, %v, with %d changes", found, err, plane.applied.Load()-before)
		}
	})
}
