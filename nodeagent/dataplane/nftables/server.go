package nftables

import (
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// key identifies a server within a table.
type key struct {
	plan.Frontend
	outside bool
}

func keyOf(id kernel.ID) key { return key{id.For, id.Frontend != id.For} }

// server is a server as it is in the kernel. It does not change once it is in a table.
type server struct {
	class
	backends []backend // by address
	slots    []netip.AddrPort
}

func (s *server) find(addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(s.backends, addr, func(b backend, a netip.AddrPort) int { return b.addr.Compare(a) })
}

// clone returns a copy that can be changed.
func (s *server) clone() *server {
	next := *s
	next.backends = slices.Clone(s.backends)
	return &next
}

// set sets the weight of a backend, and adds the backend if needed.
func (s *server) set(addr netip.AddrPort, weight uint32) {
	i, ok := s.find(addr)
	if !ok {
		s.backends = slices.Insert(s.backends, i, backend{addr: addr, weight: weight})
	}
	s.backends[i].weight = weight
}

func (s *server) remove(addr netip.AddrPort) {
	if i, ok := s.find(addr); ok {
		s.backends = slices.Delete(s.backends, i, i+1)
	}
}

// assignSlots fills the slots, which may move the server to another class.
func (s *server) assignSlots() {
	s.slots = assign(s.slots, s.Scheduler, s.backends)
	s.class.slots = len(s.slots)
	s.assignMembers()
}

// equal reports whether the kernel's state for both servers is the same. Weights above 0 may
// differ, since only the slots are in the kernel.
func (s *server) equal(o *server) bool {
	return s.class == o.class && slices.Equal(s.slots, o.slots) && slices.EqualFunc(s.backends, o.backends, func(a, b backend) bool {
		return a.addr == b.addr && (a.weight == 0) == (b.weight == 0) && a.member == b.member
	})
}

// toKernel returns the server in the form of package kernel.
func (s *server) toKernel() kernel.Server {
	out := kernel.Server{Settings: s.Settings, Backends: make([]kernel.Backend, len(s.backends))}
	for i, b := range s.backends {
		out.Backends[i] = kernel.Backend{Addr: b.addr, Weight: b.weight}
	}
	return out
}
