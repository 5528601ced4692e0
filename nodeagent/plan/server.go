package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// ServiceName names a service.
type ServiceName struct{ Namespace, Name string }

// String returns namespace/name.
func (n ServiceName) String() string { return n.Namespace + "/" + n.Name }

// Compare orders names by namespace, then name.
func (n ServiceName) Compare(o ServiceName) int {
	if n.Namespace != o.Namespace {
		return compare(n.Namespace, o.Namespace)
	}
	return compare(n.Name, o.Name)
}

// Frontend is where clients connect to: what a data plane has at most one owner
// for.
type Frontend struct {
	Addr     netip.AddrPort
	Protocol Protocol
}

// String returns address:port/PROTOCOL.
func (f Frontend) String() string { return f.Addr.String() + "/" + f.Protocol.String() }

// Compare orders frontends by address, port and protocol.
func (f Frontend) Compare(o Frontend) int {
	if c := f.Addr.Compare(o.Addr); c != 0 {
		return c
	}
	return int(f.Protocol) - int(o.Protocol)
}

// Key identifies a virtual server: a frontend, and whose traffic it takes.
type Key struct {
	Frontend
	Audience Audience
}

// String returns the frontend, and the audience unless it is everybody.
func (k Key) String() string {
	if k.Audience == Anyone {
		return k.Frontend.String()
	}
	return k.Frontend.String() + " (" + k.Audience.String() + ")"
}

// Compare orders keys by frontend, then audience.
func (k Key) Compare(o Key) int {
	if c := k.Frontend.Compare(o.Frontend); c != 0 {
		return c
	}
	return int(k.Audience) - int(o.Audience)
}

// RealServer is a backend of a virtual server.
type RealServer struct {
	Addr   netip.AddrPort
	Weight uint32 // share of new traffic; 0: none
}

// VirtualServer is a frontend, its backends, and how traffic gets from one to
// the others. A VirtualServer that was handed over is not changed any more.
type VirtualServer struct {
	Key
	Attributes
	Reals []RealServer // by address, each once
}

// Attributes are what can change in place. They are comparable except for
// Allowed: use Equal.
type Attributes struct {
	Service  ServiceName
	PortName string
	Exposure Exposure

	Scheduler Scheduler
	Flags     Flags
	// Affinity is how long after its last connection a client stays with its
	// backend; 0: not at all.
	Affinity time.Duration
	// Drain bounds how long connections to a removed backend may go on.
	Drain time.Duration

	// WithoutBackends says what happens to traffic that no backend takes.
	WithoutBackends Verdict
	// Masquerade says whose source address backends do not get to see.
	Masquerade Masquerade

	// Restricted limits clients to Allowed, which may be empty: nobody.
	Restricted bool
	Allowed    []netip.Prefix // sorted
}

// Equal tells whether two sets of attributes are the same.
func (a *Attributes) Equal(b *Attributes) bool {
	return a.Service == b.Service && a.PortName == b.PortName && a.Exposure == b.Exposure &&
		a.Scheduler == b.Scheduler && a.Flags == b.Flags && a.Affinity == b.Affinity && a.Drain == b.Drain &&
		a.WithoutBackends == b.WithoutBackends && a.Masquerade == b.Masquerade &&
		a.Restricted == b.Restricted && slices.Equal(a.Allowed, b.Allowed)
}

// Equal tells whether two virtual servers are the same, backends included.
func (v *VirtualServer) Equal(o *VirtualServer) bool {
	return v.Key == o.Key && v.Attributes.Equal(&o.Attributes) && slices.Equal(v.Reals, o.Reals)
}

// Real returns the backend at addr.
func (v *VirtualServer) Real(addr netip.AddrPort) (RealServer, bool) {
	i, ok := v.find(addr)
	if !ok {
		return RealServer{}, false
	}
	return v.Reals[i], true
}

func (v *VirtualServer) find(addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(v.Reals, addr, func(r RealServer, a netip.AddrPort) int { return r.Addr.Compare(a) })
}

// String describes the virtual server on one line, for logs.
func (v *VirtualServer) String() string {
	return fmt.Sprintf("%s %s of %s, %d backends", v.Exposure, v.Key, v.Service, len(v.Reals))
}

// Sources says which sources of traffic are what, for the whole node.
type Sources struct {
	Pods []netip.Prefix // addresses of pods, on any node; sorted
	Node []netip.Prefix // addresses of this node, loopback among them; sorted
}

// Inside tells whether traffic from addr counts as internal: it comes from a pod
// or from this very node.
func (s *Sources) Inside(addr netip.Addr) bool {
	return contains(s.Pods, addr) || contains(s.Node, addr)
}

// IsPod tells whether addr belongs to a pod.
func (s *Sources) IsPod(addr netip.Addr) bool { return contains(s.Pods, addr) }

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Equal tells whether two sets of sources are the same.
func (s *Sources) Equal(o *Sources) bool {
	return slices.Equal(s.Pods, o.Pods) && slices.Equal(s.Node, o.Node)
}

// State is all that a node forwards.
type State struct {
	Sources Sources
	Servers map[Key]*VirtualServer
}
