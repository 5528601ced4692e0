package kernel

import (
	"net/netip"
	"slices"
	"time"

	"portolan.dev/nodeagent/plan"
)

// front is a frontend and what serves it.
type front struct {
	at plan.Frontend
	// servers are in force, by audience.
	servers [3]*plan.VirtualServer
	// elements of the packet filter that are there for it.
	elements []Element
	// standIn is the address of the service for clients outside; zero until
	// they have one of their own.
	standIn netip.Addr
	// virtual: the address has a route and protection of its own.
	virtual bool
	// drained is how long backends of the last server might drain.
	drained time.Duration
}

// record is a front in the journal.
type record struct {
	At      plan.Frontend
	Servers []*plan.VirtualServer
	StandIn netip.Addr
	Drain   time.Duration
}

func (f *front) record() record {
	r := record{At: f.at, StandIn: f.standIn, Drain: f.drain()}
	for _, v := range f.servers {
		if v != nil {
			r.Servers = append(r.Servers, v)
		}
	}
	return r
}

// drain is how long backends may drain.
func (f *front) drain() time.Duration {
	for _, v := range f.servers {
		if v != nil {
			f.drained = v.Drain
		}
	}
	return f.drained
}

// inside returns who serves clients inside: their own server before the one for
// anybody.
func (f *front) inside() *plan.VirtualServer {
	if v := f.servers[plan.Internal]; v != nil {
		return v
	}
	return f.servers[plan.Anyone]
}

// outside returns who serves clients outside.
func (f *front) outside() *plan.VirtualServer {
	if v := f.servers[plan.External]; v != nil {
		return v
	}
	return f.servers[plan.Anyone]
}

// split tells whether clients outside have a service of their own.
func (f *front) split() bool { return f.outside() != nil && f.outside() != f.inside() }

func (f *front) primary() ID { return ID{f.at, f.at} }

func (f *front) secondary() ID {
	at := plan.Frontend{Addr: netip.AddrPortFrom(f.standIn, f.at.Addr.Port()), Protocol: f.at.Protocol}
	return ID{at, f.at}
}

// wanted returns the services that are to be in the
func (f *front) wanted() map[ID]*plan.VirtualServer {
	out := map[ID]*plan.VirtualServer{}
	if v := f.inside(); v != nil {
		out[f.primary()] = v
	}
	if f.split() {
		out[f.secondary()] = f.outside()
	}
	return out
}

// all returns the services that the frontend may have.
func (f *front) all() []ID {
	if f.standIn.IsValid() {
		return []ID{f.primary(), f.secondary()}
	}
	return []ID{f.primary()}
}

// ids returns the services that serve an audience.
func (f *front) ids(a plan.Audience) []ID {
	switch {
	case a == plan.External && f.standIn.IsValid():
		return []ID{f.secondary()}
	case a == plan.Internal:
		return []ID{f.primary()}
	}
	return f.all()
}

// exposure returns why the node serves the frontend.
func (f *front) exposure() plan.Exposure {
	for _, v := range f.servers {
		if v != nil {
			return v.Exposure
		}
	}
	return plan.ClusterIP
}

// filter returns the elements that the frontend needs, routes aside.
func (f *front) filter(nodes []netip.Prefix, traits Traits) []Element {
	var out []Element
	var masquerade Class
	if v := f.inside(); v != nil {
		masquerade |= classes(v.Masquerade) & (Pods | Node)
		if masquerade&Pods == 0 {
			for _, r := range v.Reals {
				out = append(out, Loop(r.Addr.Addr()))
			}
		}
		if v.Restricted {
			out = append(out, Frontend(LimitInside, f.at))
			if !anyAllowed(v.Allowed, nodes) {
				out = append(out, Frontend(LimitNode, f.at))
			}
		}
		if silent(v) {
			out = append(out, Frontend(DropInside, f.at))
		}
	}
	if v := f.outside(); v != nil {
		masquerade |= classes(v.Masquerade) & Outside
		if v.Restricted {
			out = append(out, Frontend(LimitOutside, f.at))
		}
		if silent(v) {
			out = append(out, Frontend(DropOutside, f.at))
		}
	}
	if f.split() && !traits.Splits {
		out = append(out, Split(f.at, f.standIn))
	}
	if !traits.Refuses && f.unserved() {
		out = append(out, Frontend(RefuseSet, f.at))
	}
	if masquerade != 0 {
		out = append(out, Masquerade(f.at, masquerade))
	}
	out = append(out, Allowed(f.at, f.allowed())...)
	return unique(out)
}

// allowed are the sources that either server allows.
func (f *front) allowed() []netip.Prefix {
	var all []netip.Prefix
	for _, v := range []*plan.VirtualServer{f.inside(), f.outside()} {
		if v != nil && v.Restricted {
			all = append(all, v.Allowed...)
		}
	}
	return all
}

func unique(elements []Element) []Element {
	seen := make(map[Element]bool, len(elements))
	return slices.DeleteFunc(elements, func(e Element) bool {
		old := seen[e]
		seen[e] = true
		return old
	})
}

func classes(m plan.Masquerade) Class {
	switch m {
	case plan.MasqueradeAlways:
		return Pods | Node | Outside
	case plan.MasqueradeOutside:
		return Node | Outside
	}
	return 0
}

// silent tells whether clients are to hear nothing.
func silent(v *plan.VirtualServer) bool { return v.WithoutBackends == plan.Drop && idle(v) }

// idle tells whether no backend takes traffic.
func idle(v *plan.VirtualServer) bool {
	return !slices.ContainsFunc(v.Reals, func(r plan.RealServer) bool { return r.Weight > 0 })
}

// unserved tells whether there is a server that no backend takes traffic of.
func (f *front) unserved() bool {
	for _, v := range f.wanted() {
		if idle(v) {
			return true
		}
	}
	return false
}

// anyAllowed tells whether one of the node's own addresses is among prefixes.
func anyAllowed(allowed, nodes []netip.Prefix) bool {
	return slices.ContainsFunc(nodes, func(n netip.Prefix) bool {
		return n.IsSingleIP() && slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(n.Addr()) })
	})
}

// service is what is ours in the
type service struct {
	Settings
	id       ID
	drain    time.Duration
	backends map[netip.AddrPort]*backend
	leaving  int // backends that drain
}

// backend is a backend of a service.
type backend struct {
	weight uint32
	until  time.Time // of its draining; zero: it does not
}

// leave marks a backend as draining, or as staying (zero).
func (s *service) leave(b *backend, until time.Time) {
	switch {
	case b.until.IsZero() && !until.IsZero():
		s.leaving++
	case !b.until.IsZero() && until.IsZero():
		s.leaving--
	}
	b.until = until
}

// takes tells whether a backend takes new connections.
func (s *service) takes() bool {
	for _, b := range s.backends {
		if b.weight > 0 {
			return true
		}
	}
	return false
}

func (s *service) forget(addr netip.AddrPort) {
	if b := s.backends[addr]; b != nil {
		s.leave(b, time.Time{})
		delete(s.backends, addr)
	}
}
