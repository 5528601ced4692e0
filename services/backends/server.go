package backends

import (
	"net/netip"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// Server describes how a pool distributes sessions, and to which backends. A Server never changes
// once it has been passed on.
type Server struct {
	Scheduler corev1.Scheduler // unspecified: round robin
	// HashPort adds the client's port to the client's address, which the schedulers SH and MH hash.
	HashPort bool
	// Affinity is how long after its last session a client keeps its backend; 0: no affinity.
	Affinity time.Duration
	// Drain is the longest time for which sessions of a removed backend continue; 0: they end at once.
	Drain time.Duration
	// FailOpen uses backends that are down if all backends are down. Otherwise such a pool has no
	// backend for new sessions.
	FailOpen bool
	Backends []Real // by address, each address once
}

// Real is a backend of a Server.
type Real struct {
	Addr   netip.AddrPort
	Weight uint32 // share of new sessions; 0: none
}

func (s *Server) has(addr netip.AddrPort) bool {
	_, ok := findReal(s.Backends, addr)
	return ok
}
