package syncloop

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// TestFrontendsThatAreNotServed checks that every failure counts as not served, except a feature that the
// kernel lacks, because the frontend works without it.
func TestFrontendsThatAreNotServed(t *testing.T) {
	at := func(port uint16) plan.Frontend {
		return plan.Frontend{Addr: netip.AddrPortFrom(netip.MustParseAddr("203.0.113.1"), port), Protocol: plan.TCP}
	}
	failed := []dataplane.Failure{
		{Frontend: at(1), Err: errors.New("no memory")},
		{Frontend: at(2), Err: fmt.Errorf("scheduler lc: %w", dataplane.ErrNotSupported)},
	}
	for listens, want := range map[bool]map[plan.Frontend]bool{
		false: {at(1): true},
		true:  {at(1): true, at(2): true},
	} {
		s := &Syncer{listens: listens}
		got := s.notServed(failed)
		for _, f := range failed {
			if got[f.Frontend] != want[f.Frontend] {
				t.Errorf("listens %t, %s: %t, want %t", listens, f.Frontend, got[f.Frontend], want[f.Frontend])
			}
		}
	}
}
