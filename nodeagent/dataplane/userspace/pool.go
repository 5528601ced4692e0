package userspace

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"portolan.dev/nodeagent/plan"
)

// session is a TCP connection or a UDP flow through the proxy.
type session interface {
	abort()          // ends the session at once; may be called several times
	backendRemoved() // ends parts that can continue at another backend, because this one is removed
}

// backend is a real server of a pool. After its removal it stays in the pool while it drains.
type backend struct {
	addr     netip.AddrPort
	weight   int
	removed  bool
	failed   time.Time // the backend counts as failed until then
	rrCredit int       // state of smooth weighted round robin
	sessions map[session]struct{}
	deadline *time.Timer // end of draining
}

// pool holds the backends of one virtual server. Its lock is the innermost.
type pool struct {
	front *frontend

	mu        sync.Mutex
	server    *plan.VirtualServer // nil: deleted
	backends  []*backend          // sorted by address; includes removed backends that drain
	nextIndex int                 // state of plain round robin
	affinity  affinity
}

func newPool(f *frontend) *pool { return &pool{front: f} }

// replace replaces the pool's server by another version of it. Nil deletes the server. Backends
// that stay keep their connections.
func (p *pool) replace(v *plan.VirtualServer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.server
	p.server = v
	if v == nil {
		p.affinity = affinity{}
	}
	for _, b := range slices.Clone(p.backends) {
		if v == nil {
			p.remove(b, old)
		} else if _, ok := v.Real(b.addr); !ok {
			p.remove(b, v)
		}
	}
	if v != nil {
		for _, r := range v.Reals {
			p.set(r)
		}
	}
}

func (p *pool) find(addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(p.backends, addr, func(b *backend, a netip.AddrPort) int { return b.addr.Compare(a) })
}

// set adds a backend or changes its weight. A backend that drains is in use again.
func (p *pool) set(r plan.RealServer) {
	i, ok := p.find(r.Addr)
	if !ok {
		p.backends = slices.Insert(p.backends, i, &backend{addr: r.Addr, sessions: map[session]struct{}{}})
	}
	b := p.backends[i]
	b.weight, b.removed = int(r.Weight), false
	if b.deadline != nil {
		b.deadline.Stop()
		b.deadline = nil
	}
}

// remove removes a backend. Its TCP connections may continue for the drain time of v. UDP flows
// end, so that the next datagram goes to another backend.
func (p *pool) remove(b *backend, v *plan.VirtualServer) {
	if b.removed {
		return
	}
	b.removed = true
	if v == nil || v.Drain <= 0 {
		abortAll(b)
	} else {
		for s := range b.sessions {
			s.backendRemoved()
		}
	}
	if len(b.sessions) == 0 {
		p.drop(b)
		return
	}
	if v != nil && v.Drain > 0 {
		p.drain(b, v.Drain)
	}
}

func (p *pool) drain(b *backend, d time.Duration) {
	b.deadline = time.AfterFunc(d, func() { p.expire(b, d) })
}

// expire ends the connections that are left at the end of the drain time. If the frontend still has
// the backend for another audience, for example after a change of the traffic policy, they
// continue.
func (p *pool) expire(b *backend, d time.Duration) {
	elsewhere := p.front.serves(b.addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !b.removed:
	case elsewhere && len(b.sessions) > 0:
		p.drain(b, d)
	default:
		abortAll(b)
	}
}

// has reports whether the pool has a backend at addr that is not removed.
func (p *pool) has(addr netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, ok := p.find(addr)
	return ok && !p.backends[i].removed
}

func abortAll(b *backend) {
	for s := range b.sessions {
		s.abort()
	}
}

func (p *pool) drop(b *backend) {
	if b.deadline != nil {
		b.deadline.Stop()
	}
	if i, ok := p.find(b.addr); ok && p.backends[i] == b {
		p.backends = slices.Delete(p.backends, i, i+1)
	}
}

// pick chooses a backend for a client and adds s to its sessions. Backends in tried are excluded.
// It returns nil if there is no backend.
func (p *pool) pick(client, local netip.AddrPort, tried []*backend, s session) *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	now := time.Now()
	b := p.sticky(client.Addr(), tried, now)
	if b == nil {
		candidates := p.candidates(tried, now)
		if len(candidates) == 0 {
			return nil
		}
		b = p.schedule(candidates, client, local)
	}
	if p.server.Affinity > 0 {
		p.affinity.put(client.Addr(), b.addr, now.Add(p.server.Affinity), now)
	}
	b.sessions[s] = struct{}{}
	return b
}

// sticky returns the backend that affinity assigns to a client, or nil if that backend cannot be
// used.
func (p *pool) sticky(client netip.Addr, tried []*backend, now time.Time) *backend {
	if p.server.Affinity <= 0 {
		return nil
	}
	addr, ok := p.affinity.get(client, now)
	if !ok {
		return nil
	}
	if i, ok := p.find(addr); ok {
		if b := p.backends[i]; b.takesNew() && !now.Before(b.failed) && !slices.Contains(tried, b) {
			return b
		}
	}
	return nil
}

func (b *backend) takesNew() bool { return !b.removed && b.weight > 0 }

// candidates returns the backends for a new connection. Backends that failed recently are included
// only if all have failed, because then they are worth another try.
func (p *pool) candidates(tried []*backend, now time.Time) []*backend {
	well := make([]*backend, 0, len(p.backends))
	var ill []*backend
	for _, b := range p.backends {
		switch {
		case !b.takesNew() || slices.Contains(tried, b):
		case now.Before(b.failed):
			ill = append(ill, b)
		default:
			well = append(well, b)
		}
	}
	if len(well) == 0 {
		return ill
	}
	return well
}

// hasUntried reports whether there is a backend that was not tried yet.
func (p *pool) hasUntried(tried []*backend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil && len(p.candidates(tried, time.Now())) > 0
}

// dialFailed marks a backend as failed after a dial, and releases the session.
func (p *pool) dialFailed(b *backend, s session, until time.Time) {
	p.mu.Lock()
	b.failed = until
	p.mu.Unlock()
	p.release(b, s, netip.Addr{})
}

// release removes a session that has ended from its backend. It restarts the client's affinity,
// which counts from the end of the last session.
func (p *pool) release(b *backend, s session, client netip.Addr) {
	p.mu.Lock()
	delete(b.sessions, s)
	if p.server != nil && p.server.Affinity > 0 && client.IsValid() {
		now := time.Now()
		p.affinity.renew(client, b.addr, now.Add(p.server.Affinity), now)
	}
	gone := b.removed && len(b.sessions) == 0
	if gone {
		p.drop(b)
	}
	p.mu.Unlock()
	if gone {
		p.front.plane.sweep(p.front.key)
	}
}

func (p *pool) live() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil
}

// usable reports whether the pool can serve a connection.
func (p *pool) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil && slices.ContainsFunc(p.backends, (*backend).takesNew)
}

func (p *pool) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server == nil && len(p.backends) == 0
}

// allows reports whether the source ranges admit a client.
func (p *pool) allows(client netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil && (!p.server.Restricted ||
		slices.ContainsFunc(p.server.Allowed, func(r netip.Prefix) bool { return r.Contains(client) }))
}

func (p *pool) current() *plan.VirtualServer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

func (p *pool) counts() map[netip.AddrPort]uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[netip.AddrPort]uint32, len(p.backends))
	for _, b := range p.backends {
		out[b.addr] = uint32(len(b.sessions))
	}
	return out
}

func (p *pool) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.backends {
		abortAll(b)
		if b.deadline != nil {
			b.deadline.Stop()
		}
	}
}

// markFailed marks a backend as failed.
func (p *pool) markFailed(b *backend, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.failed = until
}
