package backends

import (
	"net/netip"
	"slices"
	"time"
)

// choice sorts the backends for a new session by their health.
type choice struct {
	well   []*Backend
	failed []*Backend // recently
	down   []*Backend
	up     bool // some backend is not down; tried backends count too
}

// Pick chooses a backend for a client and adds s to its sessions. Backends in tried are excluded. It
// returns nil if there is no backend.
func (p *Pool) Pick(client, local netip.AddrPort, tried []*Backend, s Session) *Backend {
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
func (p *Pool) sticky(client netip.Addr, tried []*Backend, now time.Time) *Backend {
	if p.server.Affinity <= 0 {
		return nil
	}
	addr, ok := p.affinity.get(client, now)
	if !ok {
		return nil
	}
	if i, ok := p.find(addr); ok {
		if b := p.backends[i]; b.takesNew() && !b.down && !now.Before(b.failed) && !slices.Contains(tried, b) {
			return b
		}
	}
	return nil
}

// candidates returns the backends for a new session. Backends that failed recently are included only
// if no others are left, because then they are worth another try. Backends that are down are included
// only if all of them are down and the server fails open. The result is valid until the next call.
func (p *Pool) candidates(tried []*Backend, now time.Time) []*Backend {
	c := &p.choice
	c.well, c.failed, c.down, c.up = c.well[:0], c.failed[:0], c.down[:0], false
	for _, b := range p.backends {
		if b.takesNew() {
			c.up = c.up || !b.down
			if !slices.Contains(tried, b) {
				c.add(b, now)
			}
		}
	}
	switch {
	case len(c.well) > 0:
		return c.well
	case !c.up && p.server.FailOpen:
		return c.down
	}
	return c.failed
}

func (c *choice) add(b *Backend, now time.Time) {
	switch {
	case b.down:
		c.down = append(c.down, b)
	case now.Before(b.failed):
		c.failed = append(c.failed, b)
	default:
		c.well = append(c.well, b)
	}
}

// HasUntried reports whether there is a backend for a new session that was not tried yet.
func (p *Pool) HasUntried(tried []*Backend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server != nil && len(p.candidates(tried, time.Now())) > 0
}

// Failed marks a backend as failed until a time, for example after a dial without an answer.
func (p *Pool) Failed(b *Backend, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.failed = until
}

// Eject marks the backend at an address as failed until a time. A time in the past ends that.
func (p *Pool) Eject(addr netip.AddrPort, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.find(addr); ok {
		p.backends[i].failed = until
	}
}

// SetDown records the result of checks of the backend at an address. The pool remembers it as long as
// it has the backend; a new backend is not down.
func (p *Pool) SetDown(addr netip.AddrPort, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.find(addr); ok {
		p.backends[i].down = down
	}
}
