package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"portolan.dev/services/object"
)

// Frontend is an address, port and protocol that clients connect to. In a data plane at most one
// service owns it.
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

// Key identifies a virtual server by its frontend and its audience.
type Key struct {
	Frontend
	Audience Audience
}

// String returns the frontend, followed by the audience unless it is AnyClient.
func (k Key) String() string {
	if k.Audience == AnyClient {
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
	Weight uint32 // share of new connections; 0: none
}

// VirtualServer is a frontend, its backends, and the way in which traffic is distributed to them. A
// VirtualServer never changes once it has been passed on.
type VirtualServer struct {
	Key
	Attributes
	Reals []RealServer // by address, each address once
}

// Attributes are the properties of a virtual server that a data plane can change in place.
// Attributes are compared with Equal, because Allowed is a slice.
type Attributes struct {
	Service  object.Name
	PortName string
	Exposure Exposure

	Scheduler Scheduler
	Flags     Flags
	// Affinity is how long after its last connection a client keeps its backend; 0: no affinity.
	Affinity time.Duration
	// Drain is the longest time for which connections to a removed backend continue.
	Drain time.Duration

	// WithoutBackends is the treatment of traffic if there are no usable backends.
	WithoutBackends NoBackendsAction
	// Masquerade selects the clients that have their source address replaced by the node's.
	Masquerade Masquerade

	// Restricted limits clients to Allowed. With an empty Allowed no client is admitted.
	Restricted bool
	Allowed    []netip.Prefix // sorted
}

// Equal reports whether two sets of attributes are the same.
func (a *Attributes) Equal(b *Attributes) bool {
	return a.Service == b.Service && a.PortName == b.PortName && a.Exposure == b.Exposure &&
		a.Scheduler == b.Scheduler && a.Flags == b.Flags && a.Affinity == b.Affinity && a.Drain == b.Drain &&
		a.WithoutBackends == b.WithoutBackends && a.Masquerade == b.Masquerade &&
		a.Restricted == b.Restricted && slices.Equal(a.Allowed, b.Allowed)
}

// Equal reports whether two virtual servers are the same, including their backends.
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

// Sources classifies the source addresses of traffic, for the whole node.
type Sources struct {
	Pods []netip.Prefix // addresses of pods, on any node; sorted
	Node []netip.Prefix // addresses of this node, loopback among them; sorted
}

// IsInternal reports whether traffic from addr is internal: it comes from a pod or from this node.
func (s *Sources) IsInternal(addr netip.Addr) bool {
	return containsAddr(s.Pods, addr) || containsAddr(s.Node, addr)
}

func containsAddr(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Equal reports whether two sets of sources are the same.
func (s *Sources) Equal(o *Sources) bool {
	return slices.Equal(s.Pods, o.Pods) && slices.Equal(s.Node, o.Node)
}

// State is everything that a node forwards.
type State struct {
	Sources Sources
	Servers map[Key]*VirtualServer
}
