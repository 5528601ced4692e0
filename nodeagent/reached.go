package nodeagent

import "time"

// catchUp is how long the registry's view may stay behind what an earlier agent has
// put in force. The view of a registry that was restored from a backup never gets
// there.
const catchUp = 10 * time.Second

// reached is the revision that an earlier agent has put in force.
type reached struct {
	revision uint64    // 0: the view has got there
	since    time.Time // when the registry first answered; zero: it has not
}

// holds reports whether plans have to wait, because the view is older than what is
// in force: they would take the node back to where it was. A view from the disk may
// be older by seconds, and waits for the registry.
func (r *reached) holds(view uint64, live bool) bool {
	switch {
	case r.revision == 0:
		return false
	case live && r.since.IsZero():
		r.since = time.Now()
	}
	if view >= r.revision || !r.since.IsZero() && time.Since(r.since) >= catchUp {
		r.revision = 0
	}
	return r.revision != 0
}

// left is the time until plans do not wait any longer; an hour if that is not known.
func (r *reached) left() time.Duration {
	if r.revision == 0 || r.since.IsZero() {
		return time.Hour
	}
	return max(time.Until(r.since.Add(catchUp)), 0)
}
