package netnstest

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// LoseJournal programs servers of every kind, ends the plane, removes its journal, and opens another plane. The
// servers must be in force as before, except for the properties that no kernel has: names, and the time for
// draining. Sources must be known, too. open opens a plane in the network's node.
func LoseJournal(t *testing.T, n *Network, open func() Plane) {
	t.Helper()
	before := open()
	SetSources(t, before, n.Sources())
	servers := n.everyKind(t)
	Program(t, before, servers...)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{n.Journal, n.Journal + ".progress"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, life := range []string{"the next process", "the process after it"} { // which has a journal again
		after := open()
		state := State(t, after)
		if sources := n.Sources(); !sameRanges(state.Sources.Pods, sources.Pods) || !sameRanges(state.Sources.Node, sources.Node) {
			t.Errorf("%s: sources %v, want %v", life, state.Sources, sources)
		}
		if len(state.Servers) != len(servers) {
			t.Errorf("%s: %d servers, want %d", life, len(state.Servers), len(servers))
		}
		for _, want := range servers {
			have := state.Servers[want.Key]
			if have == nil {
				t.Errorf("%s: %s is gone", life, want.Key)
				continue
			}
			if a, b := anonymous(have), anonymous(want); !a.Equal(b) {
				t.Errorf("%s: in force is %+v, want %+v", life, a, b)
			}
		}
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// anonymous returns a virtual server without the properties that the kernel does not have. It has no difference between
// external IPs and those of load balancers either.
func anonymous(v *plan.VirtualServer) *plan.VirtualServer {
	a := *v
	a.Service, a.PortName, a.Drain = object.Name{}, "", 0
	if a.Exposure == plan.ExternalIP {
		a.Exposure = plan.LoadBalancerIP
	}
	return &a
}

func sameRanges(a, b []netip.Prefix) bool {
	have := map[netip.Prefix]bool{}
	for _, p := range a {
		have[p] = true
	}
	for _, p := range b {
		if !have[p] {
			return false
		}
	}
	return len(a) == len(b)
}

// everyKind returns servers of every exposure, audience, scheduler and policy, in both families.
func (n *Network) everyKind(t *testing.T) (all []*plan.VirtualServer) {
	for _, v6 := range []bool{false, true} {
		backend := func(i uint32) netip.AddrPort { return netip.AddrPortFrom(Nth(serving[family(v6)], i), 8080) }
		add := func(e plan.Exposure, a plan.Audience, at netip.AddrPort, change func(*plan.VirtualServer)) {
			v := Server(at, backend(1), backend(2))
			v.Exposure, v.Audience, v.Masquerade = e, a, plan.MasqueradeOutside
			v.Service, v.PortName = object.Name{Namespace: "default", Name: "web"}, "http"
			change(v)
			all = append(all, v)
		}
		at := func(e plan.Exposure) netip.AddrPort { return n.Frontend(t, e, plan.TCP, v6) }
		add(plan.ClusterIP, plan.AnyClient, at(plan.ClusterIP), func(*plan.VirtualServer) {})
		add(plan.ClusterIP, plan.AnyClient, at(plan.ClusterIP), func(v *plan.VirtualServer) {
			v.Scheduler, v.Flags, v.Masquerade = plan.SourceHash, plan.HashPort, plan.MasqueradeAlways
		})
		add(plan.ClusterIP, plan.AnyClient, at(plan.ClusterIP), func(v *plan.VirtualServer) { v.Scheduler = plan.DestinationHash })
		add(plan.ClusterIP, plan.AnyClient, at(plan.ClusterIP), func(v *plan.VirtualServer) { v.Affinity = 10 * time.Minute })
		add(plan.ClusterIP, plan.AnyClient, at(plan.ClusterIP), func(v *plan.VirtualServer) { v.Reals = nil })
		add(plan.ExternalIP, plan.AnyClient, at(plan.ExternalIP), func(v *plan.VirtualServer) {
			v.Restricted, v.Allowed = true, []netip.Prefix{outside[family(v6)]}
		})
		local := at(plan.LoadBalancerIP)
		add(plan.LoadBalancerIP, plan.Internal, local, func(v *plan.VirtualServer) { v.Masquerade = plan.MasqueradeAlways })
		add(plan.LoadBalancerIP, plan.External, local, func(v *plan.VirtualServer) {
			v.Masquerade, v.Reals = plan.MasqueradeNever, v.Reals[:1]
		})
		port := at(plan.NodePort)
		add(plan.NodePort, plan.Internal, port, func(*plan.VirtualServer) {})
		add(plan.NodePort, plan.External, port, func(v *plan.VirtualServer) {
			v.Masquerade, v.Reals, v.WithoutBackends = plan.MasqueradeNever, nil, plan.Drop
		})
	}
	return all
}
