package health

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// EjectionSettings are the settings of an ejector.
type EjectionSettings struct {
	// Failures is the number of failures in a row after which a backend is ejected.
	Failures int
	// Base is the length of the first ejection. The second one is twice as long, and so on, up to Max.
	// For each Base that the backend serves without an ejection, the next one is a Base shorter.
	Base, Max time.Duration
}

// DefaultEjection are the settings that all services have.
var DefaultEjection = EjectionSettings{Failures: 5, Base: 10 * time.Second, Max: 5 * time.Minute}

// Ejector ejects backends that fail connections or requests of clients. At least half of the backends are never
// ejected, because failures of most backends usually have another cause, and because the remaining backends could
// not take the traffic. Its methods are safe for concurrent use.
type Ejector struct {
	settings EjectionSettings
	changed  func(backend netip.AddrPort, until time.Time)
	backends atomic.Pointer[map[netip.AddrPort]*suspect] // replaced by Set

	mu      sync.Mutex
	ejected int // number of ejected backends. Guarded by mu.
}

// suspect is the state of a backend in an ejector.
type suspect struct {
	backend  netip.AddrPort
	failures atomic.Int64 // in a row

	// The ejector's lock guards the fields below.
	removed   bool
	ejections int         // the number on which the length of the next ejection depends
	since     time.Time   // the time of the last ejection or return
	until     time.Time   // the end of the ejection
	timer     *time.Timer // ends the ejection; nil if there is none
}

// NewEjector returns an ejector without backends. It calls changed when a backend is ejected, with the
// end of the ejection, and when it returns, with a time of zero. It never makes two calls at once.
// changed must return soon and must not call the ejector. It is not called for backends that leave the
// ejector.
func NewEjector(s EjectionSettings, changed func(backend netip.AddrPort, until time.Time)) *Ejector {
	e := &Ejector{settings: s, changed: changed}
	e.backends.Store(&map[netip.AddrPort]*suspect{})
	return e
}

// Set sets the backends. Backends that were there keep their state. If more than half of the backends would be
// ejected, Set ends the ejections with the earliest ends until at most half of the backends are ejected.
func (e *Ejector) Set(backends []netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old, now := *e.backends.Load(), make(map[netip.AddrPort]*suspect, len(backends))
	for _, backend := range backends {
		if s := old[backend]; s != nil {
			now[backend] = s
		} else if now[backend] == nil {
			now[backend] = &suspect{backend: backend}
		}
	}
	for backend, s := range old {
		if now[backend] == nil {
			s.removed = true
			e.stop(s)
		}
	}
	e.backends.Store(&now)
	e.returnSurplus(now)
}

// returnSurplus ends ejections until no more than half of the backends are ejected. The caller holds
// mu.
func (e *Ejector) returnSurplus(backends map[netip.AddrPort]*suspect) {
	if e.ejected <= len(backends)/2 {
		return
	}
	var out []*suspect
	for _, s := range backends {
		if s.timer != nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *suspect) int { return cmp.Or(a.until.Compare(b.until), a.backend.Compare(b.backend)) })
	for _, s := range out[:e.ejected-len(backends)/2] {
		e.end(s)
	}
}

// Close forgets all backends.
func (e *Ejector) Close() { e.Set(nil) }

// Success counts a connection or a request that the backend has served.
func (e *Ejector) Success(backend netip.AddrPort) {
	if s := (*e.backends.Load())[backend]; s != nil && s.failures.Load() != 0 {
		s.failures.Store(0)
	}
}

// Failure counts a connection that the backend has refused, or broken before its first byte, or a
// request that it has not answered properly.
func (e *Ejector) Failure(backend netip.AddrPort) {
	s := (*e.backends.Load())[backend]
	if s == nil || s.failures.Add(1) < int64(e.settings.Failures) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.removed || s.timer != nil || s.failures.Load() < int64(e.settings.Failures) || e.ejected >= len(*e.backends.Load())/2 {
		return
	}
	e.eject(s)
}

// eject begins an ejection. The caller holds mu.
func (e *Ejector) eject(s *suspect) {
	now := time.Now()
	served := now.Sub(s.since) / e.settings.Base // zero ejections stay zero, however long the time
	s.ejections = max(0, s.ejections-int(served)) + 1
	length := min(time.Duration(s.ejections)*e.settings.Base, e.settings.Max)
	s.ejections = min(s.ejections, int(e.settings.Max/e.settings.Base)) // more would make no difference
	s.since, s.until = now, now.Add(length)
	e.ejected++
	var timer *time.Timer
	timer = time.AfterFunc(length, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s.timer == timer {
			e.end(s)
		}
	})
	s.timer = timer
	e.changed(s.backend, s.until)
}

// end ends an ejection. The caller holds mu.
func (e *Ejector) end(s *suspect) {
	e.stop(s)
	s.failures.Store(0)
	s.since = time.Now()
	e.changed(s.backend, time.Time{})
}

// stop stops the timer of an ejection, if there is one. The caller holds mu.
func (e *Ejector) stop(s *suspect) {
	if s.timer == nil {
		return
	}
	s.timer.Stop()
	s.timer = nil
	e.ejected--
}

// Status returns the backends that are ejected, ordered by address.
func (e *Ejector) Status() []Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Status
	for _, s := range *e.backends.Load() {
		if s.timer != nil {
			reason := "ejected until " + s.until.UTC().Format(time.RFC3339) + " after failures in a row"
			all = append(all, Status{Backend: s.backend, Reason: reason, Since: s.since})
		}
	}
	slices.SortFunc(all, compareStatus)
	return all
}
