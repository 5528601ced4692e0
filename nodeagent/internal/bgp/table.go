package bgp

import (
	"maps"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

// Table decides which addresses the node can advertise. The zero value is empty. It is not safe for
// concurrent use.
type Table struct {
	frontends map[netip.Addr]map[plan.Frontend]frontend
	wanted    map[netip.Addr]bool // by the frontends
	served    map[netip.Addr]bool // by a proxy on the node
	changed   map[netip.Addr]bool // addresses set since Changed was last called
}

// frontend is the state of a frontend with a load-balancer address.
type frontend struct {
	service object.Name
	// inForce is set once the data plane has had the frontend as planned.
	inForce bool
	// forwards is set if clients outside of the node reach a backend. elsewhere is set if they reach
	// none here, although other nodes have some: the external traffic policy is Local.
	forwards, elsewhere bool
}

// Set sets the servers that are planned for a frontend, and whether the data plane has them.
func (t *Table) Set(planned plan.FrontendServers, programmed bool) {
	addr := planned.Addr.Addr()
	all := t.frontends[addr]
	any := planned.Any()
	if any == nil || any.Exposure != plan.LoadBalancerIP {
		if _, known := all[planned.Frontend]; !known {
			return
		}
		delete(all, planned.Frontend)
	} else {
		if all == nil {
			all = map[plan.Frontend]frontend{}
			if t.frontends == nil {
				t.frontends, t.wanted = map[netip.Addr]map[plan.Frontend]frontend{}, map[netip.Addr]bool{}
			}
			t.frontends[addr] = all
		}
		f := stateOf(&planned)
		f.inForce = programmed || all[planned.Frontend].inForce
		all[planned.Frontend] = f
	}
	if len(all) == 0 {
		delete(t.frontends, addr)
	}
	t.note(addr)
	if advertisable(all) {
		t.wanted[addr] = true
	} else {
		delete(t.wanted, addr)
	}
}

// SetServed replaces the addresses that a proxy on the node serves. They have no frontends.
func (t *Table) SetServed(all []netip.Addr) {
	before := t.served
	t.served = make(map[netip.Addr]bool, len(all))
	for _, addr := range all {
		t.served[addr] = true
		if !before[addr] {
			t.note(addr)
		}
	}
	for addr := range before {
		if !t.served[addr] {
			t.note(addr)
		}
	}
}

func (t *Table) note(addr netip.Addr) {
	if t.changed == nil {
		t.changed = map[netip.Addr]bool{}
	}
	t.changed[addr] = true
}

// stateOf returns the state of a frontend for clients outside of the node.
func stateOf(planned *plan.FrontendServers) frontend {
	server := planned.Servers[plan.External]
	if server == nil {
		server = planned.Servers[plan.AnyClient]
	}
	if server == nil { // reached from inside only
		return frontend{service: planned.Any().Service}
	}
	backends := len(server.Reals) > 0
	return frontend{service: server.Service, forwards: backends, elsewhere: !backends && server.WithoutBackends == plan.Drop}
}

// advertisable reports whether an address with these frontends may be advertised: a service at the
// address is forwarded, and none has its backends on other nodes only. A service with several ports
// needs a backend for one port only. If it needed one for each, and its ports had backends on different
// nodes, no node would advertise the address.
func advertisable(frontends map[plan.Frontend]frontend) bool {
	forwarded, elsewhere := map[object.Name]bool{}, map[object.Name]bool{}
	for _, f := range frontends {
		forwarded[f.service] = forwarded[f.service] || f.forwards && f.inForce
		elsewhere[f.service] = elsewhere[f.service] || f.elsewhere
	}
	found := false
	for service := range forwarded {
		if elsewhere[service] && !forwarded[service] {
			return false
		}
		found = found || forwarded[service]
	}
	return found
}

// Wants reports whether an address can be advertised.
func (t *Table) Wants(addr netip.Addr) bool { return t.wanted[addr] || t.served[addr] }

// Wanted returns the addresses that can be advertised, ordered.
func (t *Table) Wanted() []netip.Addr {
	all := maps.Clone(t.served)
	if all == nil {
		all = map[netip.Addr]bool{}
	}
	maps.Copy(all, t.wanted)
	return slices.SortedFunc(maps.Keys(all), netip.Addr.Compare)
}

// Changed returns the addresses of frontends that were set since its last call, ordered.
func (t *Table) Changed() []netip.Addr {
	changed := slices.SortedFunc(maps.Keys(t.changed), netip.Addr.Compare)
	t.changed = nil // not cleared: a map keeps the size of its largest change
	return changed
}
