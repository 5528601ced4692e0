package backends

import (
	"net/netip"
	"time"
)

// Backend is a backend of a Pool. After its removal it stays in the pool while it drains. If its
// address is added again after that, it is another Backend.
type Backend struct {
	addr netip.AddrPort

	// The pool's lock guards the fields below.
	weight   int
	removed  bool
	down     bool      // by checks
	failed   time.Time // the backend counts as failed until then
	rrCredit int       // state of smooth weighted round robin
	sessions map[Session]struct{}
	deadline *time.Timer // end of draining
}

// Addr returns the backend's address.
func (b *Backend) Addr() netip.AddrPort { return b.addr }

func (b *Backend) takesNew() bool { return !b.removed && b.weight > 0 }

func (b *Backend) abortAll() {
	for s := range b.sessions {
		s.Abort()
	}
}

// notifyRemoved tells the sessions that the backend was removed.
func (b *Backend) notifyRemoved() {
	for s := range b.sessions {
		s.BackendRemoved()
	}
}

func (b *Backend) stopDeadline() {
	if b.deadline != nil {
		b.deadline.Stop()
		b.deadline = nil
	}
}
