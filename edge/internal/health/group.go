package health

import (
	"net/netip"
	"slices"
	"time"
)

// Group has the backends of one service port. Its methods are safe for concurrent use.
type Group struct {
	checker *Checker
	changed func(backend netip.AddrPort, usable bool)
	// checks has the check of each backend, or nil for an unchecked backend. The checker's lock guards it.
	checks map[netip.AddrPort]*check
}

// NewGroup returns a group without backends. It calls changed whenever the state of a backend changes. It also
// calls changed for each backend that is added, because a pool may have the state of a backend that has left and
// come back. It never makes two calls at once. changed must return soon and must not call the
// group or the checker. It is not called for backends that leave the group.
func (c *Checker) NewGroup(changed func(backend netip.AddrPort, usable bool)) *Group {
	return &Group{checker: c, changed: changed, checks: map[netip.AddrPort]*check{}}
}

// Set sets the backends of the group and the settings of their checks. A backend that was in the group
// keeps its state. A new backend is usable, unless another group has the same check and that check fails.
func (g *Group) Set(settings Settings, backends []netip.AddrPort) {
	c := g.checker
	c.mu.Lock()
	defer c.mu.Unlock()
	present := make(map[netip.AddrPort]bool, len(backends))
	for _, backend := range backends {
		if !present[backend] {
			present[backend] = true
			g.setBackend(backend, &settings)
		}
	}
	for backend, check := range g.checks {
		if !present[backend] {
			g.drop(backend, check)
		}
	}
}

// Close removes all backends.
func (g *Group) Close() { g.Set(Settings{}, nil) }

// setBackend adds a backend or changes the settings of its check. The caller holds the checker's
// lock.
func (g *Group) setBackend(backend netip.AddrPort, settings *Settings) {
	old, known := g.checks[backend]
	if old != nil && old.settings == *settings {
		return
	}
	var now *check
	if settings.Protocol != None {
		now = g.checker.use(user{g, backend}, settings, old)
	}
	if old != nil {
		g.drop(backend, old)
	}
	g.checks[backend] = now
	if is := usable(now); !known || usable(old) != is {
		g.changed(backend, is)
	}
}

// drop removes a backend. The caller holds the checker's lock.
func (g *Group) drop(backend netip.AddrPort, check *check) {
	delete(g.checks, backend)
	if check != nil {
		g.checker.leave(user{g, backend}, check)
	}
}

// usable reports whether a backend with the check is usable.
func usable(c *check) bool { return c == nil || c.verdict.usable }

// Status returns the state of all backends that are checked, ordered by address.
func (g *Group) Status() []Status {
	g.checker.mu.Lock()
	defer g.checker.mu.Unlock()
	all := make([]Status, 0, len(g.checks))
	for backend, check := range g.checks {
		if check != nil {
			all = append(all, check.status(backend))
		}
	}
	slices.SortFunc(all, compareStatus)
	return all
}

// status returns the state of a backend that uses the check.
func (c *check) status(backend netip.AddrPort) Status {
	s := Status{Backend: backend, Usable: c.verdict.usable, Since: c.since}
	if !s.Usable {
		s.Reason = c.reason
	}
	return s
}

// Usable reports whether a backend is usable, and since when. An unchecked backend is usable.
func (g *Group) Usable(backend netip.AddrPort) (bool, time.Time) {
	g.checker.mu.Lock()
	defer g.checker.mu.Unlock()
	if check := g.checks[backend]; check != nil {
		return check.verdict.usable, check.since
	}
	return true, time.Time{}
}
