package syncloop

import (
	"time"
)

// maxCatchUp limits the time for which plans wait until the view from the registry reaches the revision in
// force. The view of a registry that was restored from a backup may never reach it.
const maxCatchUp = 10 * time.Second

// reached is the revision that an earlier agent has put in force, while plans may have to wait for
// it.
type reached struct {
	revision uint64    // 0: plans do not wait any longer
	since    time.Time // time of the first view from the registry; zero: there was none yet
}

// mustWait reports whether plans must wait, because the view is older than the revision in force
// and they would set the node back. A view from the disk may be older by seconds. Plans for it wait
// until the registry has answered, and then for at most maxCatchUp.
func (r *reached) mustWait(view uint64, live bool) bool {
	switch {
	case r.revision == 0:
		return false
	case live && r.since.IsZero():
		r.since = time.Now()
	}
	if view >= r.revision || !r.since.IsZero() && time.Since(r.since) >= maxCatchUp {
		r.revision = 0
	}
	return r.revision != 0
}

// remaining returns the time until plans stop waiting, or an hour if that time is not known.
func (r *reached) remaining() time.Duration {
	if r.revision == 0 || r.since.IsZero() {
		return time.Hour
	}
	return max(time.Until(r.since.Add(maxCatchUp)), 0)
}
