package backends

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Options connect a pool to its owner. Each may be nil.
type Options struct {
	// Removed is called within Replace for each backend that was removed, without the pool's lock.
	Removed func(*Backend)
	// Drained is called when the last session of a removed backend has ended, without the pool's lock.
	Drained func()
	// InUse reports whether the owner still uses a backend that was removed from this pool. If so, the
	// backend's sessions continue at the end of the drain time.
	InUse func(netip.AddrPort) bool
}

// Pool holds the backends of one server. It is safe for concurrent use. Its lock is the innermost.
type Pool struct {
	opts Options

	mu        sync.Mutex
	server    *Server    // nil: deleted
	backends  []*Backend // sorted by address; includes removed backends that drain
	nextIndex int        // state of plain round robin
	affinity  affinity
	choice    choice // reused, so that a pick allocates nothing
}

// NewPool returns a pool without a server.
func NewPool(o Options) *Pool { return &Pool{opts: o} }

// Replace replaces the pool's server by another version of it. Nil deletes the server. Backends
// that stay keep their sessions and their health.
func (p *Pool) Replace(s *Server) {
	removed := p.replace(s)
	if p.opts.Removed != nil {
		for _, b := range removed {
			p.opts.Removed(b)
		}
	}
}

// replace is Replace without the call of Options.Removed. It returns the removed backends.
func (p *Pool) replace(s *Server) (removed []*Backend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	drain := p.drainTime(s)
	p.server = s
	if s == nil {
		p.affinity = affinity{}
	}
	for _, b := range slices.Clone(p.backends) {
		if !b.removed && (s == nil || !s.has(b.addr)) {
			p.remove(b, drain)
			removed = append(removed, b)
		}
	}
	if s != nil {
		for _, r := range s.Backends {
			p.set(r)
		}
	}
	return removed
}

// drainTime returns the drain time for backends that next, the next version of the server, lacks. If the
// server is deleted, the former version decides.
func (p *Pool) drainTime(next *Server) time.Duration {
	switch {
	case next != nil:
		return next.Drain
	case p.server != nil:
		return p.server.Drain
	}
	return 0
}

func (p *Pool) find(addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(p.backends, addr, func(b *Backend, a netip.AddrPort) int { return b.addr.Compare(a) })
}

func findReal(reals []Real, addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(reals, addr, func(r Real, a netip.AddrPort) int { return r.Addr.Compare(a) })
}

// set adds a backend or changes its weight. A backend that drains is in use again.
func (p *Pool) set(r Real) {
	i, ok := p.find(r.Addr)
	if !ok {
		p.backends = slices.Insert(p.backends, i, &Backend{addr: r.Addr, sessions: map[Session]struct{}{}})
	}
	b := p.backends[i]
	b.weight, b.removed = int(r.Weight), false
	b.stopDeadline()
}

// remove removes a backend. Its sessions may continue for the drain time, except for the parts that
// can continue at another backend.
func (p *Pool) remove(b *Backend, drain time.Duration) {
	b.removed = true
	if drain <= 0 {
		b.abortAll()
	} else {
		b.notifyRemoved()
	}
	switch {
	case len(b.sessions) == 0:
		p.drop(b)
	case drain > 0:
		p.drain(b, drain)
	}
}

func (p *Pool) drain(b *Backend, d time.Duration) {
	b.deadline = time.AfterFunc(d, func() { p.expire(b, d) })
}

// expire ends the sessions that are left at the end of the drain time, unless the owner still uses
// the backend.
func (p *Pool) expire(b *Backend, d time.Duration) {
	inUse := p.opts.InUse != nil && p.opts.InUse(b.addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !b.removed:
	case inUse && len(b.sessions) > 0:
		p.drain(b, d)
	default:
		b.abortAll()
	}
}

func (p *Pool) drop(b *Backend) {
	b.stopDeadline()
	if i, ok := p.find(b.addr); ok && p.backends[i] == b {
		p.backends = slices.Delete(p.backends, i, i+1)
	}
}

// Release removes a session that has ended from its backend. It restarts the affinity of a valid
// client, because affinity counts from the end of the last session.
func (p *Pool) Release(b *Backend, s Session, client netip.Addr) {
	p.mu.Lock()
	delete(b.sessions, s)
	if p.server != nil && p.server.Affinity > 0 && client.IsValid() {
		now := time.Now()
		p.affinity.renew(client, b.addr, now.Add(p.server.Affinity), now)
	}
	drained := b.removed && len(b.sessions) == 0
	if drained {
		p.drop(b)
	}
	p.mu.Unlock()
	if drained && p.opts.Drained != nil {
		p.opts.Drained()
	}
}

// Has reports whether the pool has a backend at addr that is not removed.
func (p *Pool) Has(addr netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, ok := p.find(addr)
	return ok && !p.backends[i].removed
}

// TakesNew reports whether the pool has a backend with a weight for new sessions. Whether the backend
// is usable does not matter.
func (p *Pool) TakesNew() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil && slices.ContainsFunc(p.backends, (*Backend).takesNew)
}

// Empty reports whether the pool has neither a server nor backends that drain.
func (p *Pool) Empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server == nil && len(p.backends) == 0
}

// Sessions returns the number of sessions by backend. It includes backends that drain.
func (p *Pool) Sessions() map[netip.AddrPort]uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[netip.AddrPort]uint32, len(p.backends))
	for _, b := range p.backends {
		out[b.addr] = uint32(len(b.sessions)) // #nosec G115 -- fewer than file descriptors
	}
	return out
}

// Abort ends all sessions.
func (p *Pool) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		b.abortAll()
		b.stopDeadline()
	}
}
