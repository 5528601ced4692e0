package announce

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

// TestMessageHasStatesTwice checks that an lbctl of an earlier release finds the states in its fields.
func TestMessageHasStatesTwice(t *testing.T) {
	h := NewHolder(func() time.Duration { return 0 }, "i", func(netip.Addr) bool { return true })
	h.Begin()
	m := h.Message(State{Node: "n1", Ready: true, Draining: true, Restarting: true, Stays: true, AwaitsProxy: true})
	if !m.GetReady() || !m.GetDraining() || !m.GetRestarting() || !m.GetForwardsAlone() || !m.GetAwaitsProxy() {
		t.Errorf("earlier fields: %v", m)
	}
	want := []loadbalancerv1.AnnounceState{
		loadbalancerv1.AnnounceState_ANNOUNCE_STATE_READY, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_DRAINING,
		loadbalancerv1.AnnounceState_ANNOUNCE_STATE_RESTARTING, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_FORWARDS_ALONE,
		loadbalancerv1.AnnounceState_ANNOUNCE_STATE_AWAITS_PROXY,
	}
	if !slices.Equal(m.GetStates(), want) {
		t.Errorf("states: %v", m.GetStates())
	}
	if m := h.Message(State{Node: "n1"}); len(m.GetStates()) > 0 || m.GetReady() {
		t.Errorf("no states: %v", m)
	}
}
