package nftables_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// TestDroppedPacketsAreCounted checks that dropped packets are counted by service and reason, and
// that admitted ones are not.
func TestDroppedPacketsAreCounted(t *testing.T) {
	n, p := start(t)
	lis, _ := n.Listen(t, plan.TCP, false)
	t.Cleanup(func() { lis.Close() })
	backend := netip.MustParseAddrPort(lis.Addr().String())
	limited := netnstest.Server(n.Frontend(t, plan.LoadBalancerIP, plan.TCP, false), backend)
	limited.Service, limited.Exposure = object.Name{Namespace: "default", Name: "limited"}, plan.LoadBalancerIP
	limited.Restricted = true
	allowed := n.ClientAddr(dataplanetest.Outside, 1, false)
	limited.Allowed = []netip.Prefix{netip.PrefixFrom(allowed, 32)}
	away := netnstest.Server(n.Frontend(t, plan.LoadBalancerIP, plan.TCP, false))
	away.Service, away.Exposure, away.WithoutBackends = object.Name{Namespace: "default", Name: "away"}, plan.LoadBalancerIP, plan.Drop
	netnstest.Program(t, p, limited, away)
	try := func(client int, to netip.AddrPort, want bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		source := netip.AddrPortFrom(n.ClientAddr(dataplanetest.Outside, client, false), 0)
		conn, err := n.Dial(ctx, dataplanetest.Outside, source, plan.TCP, to)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("client %d at %s: %v", client, to, err)
		}
	}
	drops := func() map[string]uint64 {
		t.Helper()
		found, err := p.Drops()
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]uint64{}
		for _, d := range found {
			sums[d.Service.Name+" "+d.Reason] += d.Packets
		}
		return sums
	}
	try(1, limited.Addr, true)
	if found := drops(); len(found) > 0 {
		t.Errorf("before anything is dropped: %v", found)
	}
	try(2, limited.Addr, false)
	try(1, away.Addr, false)
	found := drops()
	if len(found) != 2 || found["limited "+packetfilter.ReasonSourceRange] == 0 || found["away "+packetfilter.ReasonNoBackend] == 0 {
		t.Errorf("dropped %v", found)
	}
}
