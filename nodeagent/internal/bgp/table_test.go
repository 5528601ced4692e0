package bgp

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// step is a frontend as it is planned, in the notation of planned, and whether it was programmed.
type step struct {
	frontend string
	failed   bool
}

// TestAddressesFollowTheFrontends sets frontends one after the other, and checks the addresses at the end.
func TestAddressesFollowTheFrontends(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"nothing", nil, ""},
		{"a service with backends", []step{{"web 10.0.0.1:80 any 2", false}}, "10.0.0.1"},
		{"both families", []step{{"web 10.0.0.1:80 any 2", false}, {"web [fd00::1]:80 any 1", false}}, "10.0.0.1 fd00::1"},
		{"no backends", []step{{"web 10.0.0.1:80 any 0", false}}, ""},
		{"the last backend goes", []step{{"web 10.0.0.1:80 any 1", false}, {"web 10.0.0.1:80 any 0", false}}, ""},
		{"a backend comes", []step{{"web 10.0.0.1:80 any 0", false}, {"web 10.0.0.1:80 any 1", false}}, "10.0.0.1"},
		{"the service goes", []step{{"web 10.0.0.1:80 any 1", false}, {"- 10.0.0.1:80", false}}, ""},
		{"a frontend goes that was not there", []step{{"- 10.0.0.1:80", false}}, ""},
		{"one of two ports has backends", []step{{"web 10.0.0.1:80 any 1", false}, {"web 10.0.0.1:443 any 0", false}}, "10.0.0.1"},
		{"one of two ports goes", []step{{"web 10.0.0.1:80 any 1", false}, {"web 10.0.0.1:443 any 1", false}, {"- 10.0.0.1:443", false}}, "10.0.0.1"},
		{"cluster IPs", []step{{"web 10.0.0.1:80 clusterIP 1", false}}, ""},
		{"a load-balancer address that becomes another exposure", []step{{"web 10.0.0.1:80 any 1", false}, {"web 10.0.0.1:80 clusterIP 1", false}}, ""},
		{"could not be programmed", []step{{"web 10.0.0.1:80 any 1", true}}, ""},
		{"programmed by a later try", []step{{"web 10.0.0.1:80 any 1", true}, {"web 10.0.0.1:80 any 1", false}}, "10.0.0.1"},
		{"a later change fails", []step{{"web 10.0.0.1:80 any 1", false}, {"web 10.0.0.1:80 any 2", true}}, "10.0.0.1"},
		{"the removal of the last backend fails", []step{{"web 10.0.0.1:80 any 1", false}, {"web 10.0.0.1:80 any 0", true}}, ""},
		{"made again after its removal, and fails", []step{{"web 10.0.0.1:80 any 1", false}, {"- 10.0.0.1:80", false}, {"web 10.0.0.1:80 any 1", true}}, ""},
		{"policy Local, backends here", []step{{"web 10.0.0.1:80 local 1 of 2", false}}, "10.0.0.1"},
		{"policy Local, backends elsewhere", []step{{"web 10.0.0.1:80 local 0 of 2", false}}, ""},
		{"policy Local, the backend moves away", []step{{"web 10.0.0.1:80 local 1 of 1", false}, {"web 10.0.0.1:80 local 0 of 1", false}}, ""},
		{"policy Local, no backends", []step{{"web 10.0.0.1:80 local 0 of 0", false}}, ""},
		{"policy Local, one of two ports has its backends elsewhere", []step{{"web 10.0.0.1:80 local 0 of 1", false}, {"web 10.0.0.1:443 local 1 of 1", false}}, "10.0.0.1"},
		{"shared, one has backends", []step{{"web 10.0.0.1:80 any 0", false}, {"mail 10.0.0.1:25 any 1", false}}, "10.0.0.1"},
		{"shared, one is Local and has its backends elsewhere", []step{{"web 10.0.0.1:80 any 1", false}, {"mail 10.0.0.1:25 local 0 of 1", false}}, ""},
		{"shared, one is Local and goes", []step{{"web 10.0.0.1:80 any 1", false}, {"mail 10.0.0.1:25 local 0 of 1", false}, {"- 10.0.0.1:25", false}}, "10.0.0.1"},
		{"shared, one is Local and has no backends", []step{{"web 10.0.0.1:80 any 1", false}, {"mail 10.0.0.1:25 local 0 of 0", false}}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var table Table
			for _, s := range c.steps {
				table.Set(planned(t, s.frontend), !s.failed)
			}
			if got := texts(table.Wanted()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, addr := range table.Wanted() {
				if !table.Wants(addr) {
					t.Errorf("%s is wanted and is not", addr)
				}
			}
		})
	}
}

// TestChangedAreThoseSet checks that a change concerns the addresses of its own frontends only.
func TestChangedAreThoseSet(t *testing.T) {
	var table Table
	table.Set(planned(t, "web 10.0.0.1:80 any 1"), true)
	table.Set(planned(t, "mail 10.0.0.2:25 any 1"), true)
	if got := texts(table.Changed()); got != "10.0.0.1 10.0.0.2" {
		t.Errorf("first: %q", got)
	}
	table.Set(planned(t, "mail 10.0.0.2:25 any 0"), true)
	table.Set(planned(t, "api 10.0.0.3:80 clusterIP 1"), true)
	if got := texts(table.Changed()); got != "10.0.0.2" {
		t.Errorf("then: %q", got)
	}
	if got := texts(table.Changed()); got != "" {
		t.Errorf("last: %q", got)
	}
}

// TestServedAddresses checks that the addresses of a proxy are wanted in addition to the addresses of
// frontends, and that a change of the proxy's addresses reports only the differences.
func TestServedAddresses(t *testing.T) {
	var table Table
	table.Set(planned(t, "web 10.0.0.1:80 any 1"), true)
	table.Changed()
	a, b := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8")
	for _, step := range []struct {
		served          []netip.Addr
		wanted, changed string
	}{
		{[]netip.Addr{a}, "10.0.0.1 10.0.0.7", "10.0.0.7"},
		{[]netip.Addr{a, b}, "10.0.0.1 10.0.0.7 10.0.0.8", "10.0.0.8"},
		{[]netip.Addr{b}, "10.0.0.1 10.0.0.8", "10.0.0.7"},
		{nil, "10.0.0.1", "10.0.0.8"},
	} {
		table.SetServed(step.served)
		if wanted, changed := texts(table.Wanted()), texts(table.Changed()); wanted != step.wanted || changed != step.changed || table.Wants(a) != slices.Contains(step.served, a) {
			t.Errorf("served %v: wanted %q, changed %q, want %q and %q", step.served, wanted, changed, step.wanted, step.changed)
		}
	}
}

// planned returns a planned frontend: "SERVICE ADDR any N", "SERVICE ADDR clusterIP N", "SERVICE ADDR
// local HERE of ALL", or "- ADDR" for one that is not planned.
func planned(t *testing.T, text string) plan.FrontendServers {
	t.Helper()
	words := strings.Fields(text)
	f := plan.FrontendServers{Frontend: plan.Frontend{Addr: netip.MustParseAddrPort(words[1]), Protocol: plan.TCP}}
	server := func(audience plan.Audience, backends string) *plan.VirtualServer {
		v := &plan.VirtualServer{Key: plan.Key{Frontend: f.Frontend, Audience: audience}}
		v.Service, v.Exposure = object.Name{Namespace: "default", Name: words[0]}, plan.LoadBalancerIP
		for i := range int(backends[0] - '0') {
			v.Reals = append(v.Reals, plan.RealServer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 80), Weight: 1})
		}
		f.Servers[audience] = v
		return v
	}
	switch {
	case words[0] == "-":
	case words[2] == "local":
		server(plan.Internal, words[5])
		if outside := server(plan.External, words[3]); words[5] != "0" {
			outside.WithoutBackends = plan.Drop
		}
	default:
		if v := server(plan.AnyClient, words[3]); words[2] == "clusterIP" {
			v.Exposure = plan.ClusterIP
		}
	}
	return f
}

func texts(addrs []netip.Addr) string {
	var all []string
	for _, a := range addrs {
		all = append(all, a.String())
	}
	if !slices.IsSortedFunc(addrs, netip.Addr.Compare) {
		return "not in order: " + strings.Join(all, " ")
	}
	return strings.Join(all, " ")
}
