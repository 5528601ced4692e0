package kernel

import (
	"net/netip"
	"slices"
	"time"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/plan"
)

// frontendState is a frontend with the virtual servers that are programmed for it.
type frontendState struct {
	at plan.Frontend
	// servers are the servers in force, by audience.
	servers [3]*plan.VirtualServer
	// elements are the packet filter's elements for the frontend.
	elements []packetfilter.Element
	// standIn is the address of the service for external clients. It is zero until they have one of
	// their own.
	standIn netip.Addr
	// virtual is set if the address has a route and protection of its own.
	virtual bool
	// lastDrain is the drain time of the last server.
	lastDrain time.Duration
}

// drain returns the drain time of the frontend's backends.
func (f *frontendState) drain() time.Duration {
	for _, v := range f.servers {
		if v != nil {
			f.lastDrain = v.Drain
		}
	}
	return f.lastDrain
}

// internalServer returns the virtual server for internal clients: the server for Internal if it exists,
// otherwise the server for AnyClient.
func (f *frontendState) internalServer() *plan.VirtualServer {
	if v := f.servers[plan.Internal]; v != nil {
		return v
	}
	return f.servers[plan.AnyClient]
}

// externalServer returns the virtual server for external clients: the server for External if it exists,
// otherwise the server for AnyClient.
func (f *frontendState) externalServer() *plan.VirtualServer {
	if v := f.servers[plan.External]; v != nil {
		return v
	}
	return f.servers[plan.AnyClient]
}

// split reports whether external clients have a service of their own.
func (f *frontendState) split() bool {
	return f.externalServer() != nil && f.externalServer() != f.internalServer()
}

func (f *frontendState) primary() ID { return ID{f.at, f.at} }

func (f *frontendState) secondary() ID {
	at := plan.Frontend{Addr: netip.AddrPortFrom(f.standIn, f.at.Addr.Port()), Protocol: f.at.Protocol}
	return ID{at, f.at}
}

// wantedService is a service that should be in the kernel.
type wantedService struct {
	id     ID
	server *plan.VirtualServer
}

// wanted appends the services that should be in the kernel to list.
func (f *frontendState) wanted(list []wantedService) []wantedService {
	if v := f.internalServer(); v != nil {
		list = append(list, wantedService{f.primary(), v})
	}
	if f.split() {
		list = append(list, wantedService{f.secondary(), f.externalServer()})
	}
	return list
}

// wantedAt returns the virtual server that should be at a service of the frontend, or nil.
func (f *frontendState) wantedAt(id ID) *plan.VirtualServer {
	switch {
	case id.Frontend == f.at:
		return f.internalServer()
	case f.split():
		return f.externalServer()
	}
	return nil
}

// empty reports whether no server is wanted.
func (f *frontendState) empty() bool { return f.internalServer() == nil && f.externalServer() == nil }

// all returns the services that the frontend may have.
func (f *frontendState) all() []ID {
	if f.standIn.IsValid() {
		return []ID{f.primary(), f.secondary()}
	}
	return []ID{f.primary()}
}

// ids returns the services that serve an audience.
func (f *frontendState) ids(a plan.Audience) []ID {
	switch {
	case a == plan.External && f.standIn.IsValid():
		return []ID{f.secondary()}
	case a == plan.Internal:
		return []ID{f.primary()}
	}
	return f.all()
}

// exposure returns the reason why the node serves the frontend.
func (f *frontendState) exposure() plan.Exposure {
	for _, v := range f.servers {
		if v != nil {
			return v.Exposure
		}
	}
	return plan.ClusterIP
}

// filter returns the filter elements that the frontend needs, except the elements for routes. Clients in the
// implied classes are masqueraded without an element.
func (f *frontendState) filter(sources *plan.Sources, traits Traits, implied packetfilter.Class) []packetfilter.Element {
	var out []packetfilter.Element
	if v := f.internalServer(); v != nil {
		if v.Restricted {
			out = append(out, packetfilter.Frontend(packetfilter.LimitInside, f.at))
			if !anyAllowed(v.Allowed, sources.Node) {
				out = append(out, packetfilter.Frontend(packetfilter.LimitNode, f.at))
			}
		}
		if silent(v) {
			out = append(out, packetfilter.Frontend(packetfilter.DropInside, f.at))
		}
	}
	if v := f.externalServer(); v != nil {
		if v.Restricted {
			out = append(out, packetfilter.Frontend(packetfilter.LimitOutside, f.at))
		}
		if silent(v) {
			out = append(out, packetfilter.Frontend(packetfilter.DropOutside, f.at))
		}
	}
	if f.split() && !traits.SplitsClients {
		out = append(out, packetfilter.Split(f.at, f.standIn))
	}
	if !traits.Refuses && f.unserved() {
		out = append(out, packetfilter.Frontend(packetfilter.RefuseSet, f.at))
	}
	if hidden := f.masqueraded(packetfilter.PodsKnown(sources.Pods, f.at.Addr.Addr().Is6())); !f.empty() && hidden != implied {
		out = append(out, packetfilter.Masquerade(f.at, hidden))
	}
	if in, outside := f.internalServer(), f.externalServer(); in != nil && in.Restricted || outside != nil && outside.Restricted {
		out = append(out, packetfilter.Frontend(packetfilter.DeniedSet, f.at))
	}
	if allowed := f.allowed(); len(allowed) > 0 {
		out = append(out, packetfilter.Allowed(f.at, allowed)...)
	}
	return out
}

// allowed returns the sources that either server allows.
func (f *frontendState) allowed() []netip.Prefix {
	var all []netip.Prefix
	for _, v := range []*plan.VirtualServer{f.internalServer(), f.externalServer()} {
		if v != nil && v.Restricted {
			all = append(all, v.Allowed...)
		}
	}
	return all
}

// masqueraded returns the sources that are masqueraded for the frontend.
func (f *frontendState) masqueraded(podsKnown bool) packetfilter.Class {
	var c packetfilter.Class
	if v := f.internalServer(); v != nil {
		inside := packetfilter.Pods | packetfilter.Node | packetfilter.SameDevice
		if !podsKnown && f.split() { // SameDevice would include external clients
			inside = packetfilter.Pods | packetfilter.Node
		}
		c |= packetfilter.Classes(v.Masquerade, podsKnown) & inside
	}
	if v := f.externalServer(); v != nil {
		c |= packetfilter.Classes(v.Masquerade, podsKnown) & packetfilter.Outside
	}
	return c
}

// silent reports whether clients get no answer.
func silent(v *plan.VirtualServer) bool { return v.WithoutBackends == plan.Drop && noUsableBackend(v) }

// noUsableBackend reports whether no backend takes new traffic.
func noUsableBackend(v *plan.VirtualServer) bool {
	return !slices.ContainsFunc(v.Reals, func(r plan.RealServer) bool { return r.Weight > 0 })
}

// unserved reports whether the frontend has a server without usable backends.
func (f *frontendState) unserved() bool {
	in, out := f.internalServer(), f.externalServer()
	return in != nil && noUsableBackend(in) || out != nil && noUsableBackend(out)
}

// anyAllowed reports whether allowed contains one of the node's own addresses.
func anyAllowed(allowed, nodes []netip.Prefix) bool {
	return slices.ContainsFunc(nodes, func(n netip.Prefix) bool {
		return n.IsSingleIP() && slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(n.Addr()) })
	})
}

// service is a server of the plane in the kernel.
type service struct {
	Settings
	id       ID
	drain    time.Duration
	backends []backend // sorted by address
	draining int       // number of backends that drain
	noted    bool      // the journal has the backends that drain
}

// backend is a backend of a service.
type backend struct {
	addr   netip.AddrPort
	until  int64 // end of its draining, in ns since the epoch; 0: it does not drain
	weight uint32
	// altered is set if another program has changed a property of the backend other than its weight.
	altered bool
}

// flow returns the flow of the service's clients to a backend.
func (s *service) flow(to netip.AddrPort) host.Flow {
	return host.Flow{Frontend: s.id.For.Addr, Protocol: uint8(s.id.For.Protocol), Backend: to}
}

// find returns the index of a backend, or the index at which to insert it.
func (s *service) find(addr netip.AddrPort) (int, bool) {
	if n := len(s.backends); n == 0 || s.backends[n-1].addr.Compare(addr) < 0 {
		return n, false // the common case when many are added in order
	}
	return slices.BinarySearchFunc(s.backends, addr, func(b backend, a netip.AddrPort) int { return b.addr.Compare(a) })
}

// backend returns a backend, or nil. The pointer is valid until a backend is added or removed.
func (s *service) backend(addr netip.AddrPort) *backend {
	if i, ok := s.find(addr); ok {
		return &s.backends[i]
	}
	return nil
}

// setBackend sets the weight of a backend and ends its draining. It adds the backend if needed.
func (s *service) setBackend(addr netip.AddrPort, weight uint32) {
	i, ok := s.find(addr)
	if !ok {
		s.backends = slices.Insert(s.backends, i, backend{addr: addr})
	}
	s.backends[i].weight, s.backends[i].altered = weight, false
	s.setDraining(&s.backends[i], time.Time{})
}

// setDraining marks a backend as draining until a time. The zero time ends the draining.
func (s *service) setDraining(b *backend, until time.Time) {
	if b.until != 0 {
		s.draining--
	}
	b.until = 0
	if !until.IsZero() {
		b.until = until.UnixNano()
		s.draining++
	}
}

// hasUsableBackend reports whether a backend takes new connections.
func (s *service) hasUsableBackend() bool {
	return slices.ContainsFunc(s.backends, func(b backend) bool { return b.weight > 0 })
}

func (s *service) removeBackend(addr netip.AddrPort) {
	if i, ok := s.find(addr); ok {
		s.setDraining(&s.backends[i], time.Time{})
		s.backends = slices.Delete(s.backends, i, i+1)
	}
}
