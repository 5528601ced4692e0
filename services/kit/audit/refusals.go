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

// allowance is the number of lines that a caller could still have written at a time.
type allowance struct {
	lines float64
	at    time.Time
}

// left returns the number of lines that the caller may have now.
func (a allowance) left(now time.Time) float64 {
	return min(refusedBurst, a.lines+now.Sub(a.at).Seconds()*refusedPerSecond)
}

// callerOf returns the key by which calls are counted: the serial number of the caller's certificate, or
// the caller's address if it has no certificate. A caller cannot choose either. Calls on behalf of
// another identity are counted for each such identity, so that one client of kubeapi does not use up the
// lines of the others.
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

// forget removes callers with a full allowance.
func (r *refusals) forget(now time.Time) {
	for caller, have := range r.of {
		if have.left(now) >= refusedBurst {
			delete(r.of, caller)
		}
	}
}
