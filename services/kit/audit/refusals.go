package audit

import (
	"net"
	"time"
)

const (
	// refusedBurst and refusedPerSecond limit the lines of failed calls of one caller.
	refusedBurst     = 100
	refusedPerSecond = 5
	// maxCallers is the largest number of callers that are limited one by one. Further callers share
	// one limit.
	maxCallers = 1000
)

// refusals limits the lines of failed calls, for each caller. The zero value is ready to use.
type refusals struct{ of map[string]allowance }

// allowance is what a caller had left at a time.
type allowance struct {
	lines float64
	at    time.Time
}

// left returns what the caller has now.
func (a allowance) left(now time.Time) float64 {
	return min(refusedBurst, a.lines+now.Sub(a.at).Seconds()*refusedPerSecond)
}

// callerOf returns the caller of a call: its certificate, or its address if it has none. A caller
// chooses neither. The calls on behalf of each identity count apart, so that one client of a daemon
// does not hide the others.
func callerOf(e *Entry) string {
	if e.Via != "" {
		return e.Serial + " " + e.Identity
	}
	if e.Serial != "" {
		return e.Serial
	}
	if host, _, err := net.SplitHostPort(e.Peer); err == nil {
		return host
	}
	return e.Peer
}

// allow reports whether a caller may have a line now, and counts it.
func (r *refusals) allow(caller string, now time.Time) bool {
	if r.of == nil {
		r.of = map[string]allowance{}
	}
	have, known := r.of[caller]
	if !known && len(r.of) >= maxCallers {
		r.forget(now)
	}
	if !known && len(r.of) >= maxCallers {
		caller = ""
		have, known = r.of[caller]
	}
	lines := float64(refusedBurst)
	if known {
		lines = have.left(now)
	}
	if lines < 1 {
		return false
	}
	r.of[caller] = allowance{lines - 1, now}
	return true
}

// forget removes callers that have everything left.
func (r *refusals) forget(now time.Time) {
	for caller, have := range r.of {
		if have.left(now) >= refusedBurst {
			delete(r.of, caller)
		}
	}
}
