package lab

import (
	"errors"
	"fmt"
	"time"
)

// flushTime is the shortest time that a slow flush of Postgres' log takes. It is the maximum of
// commit_delay.
const slowFlushTime = 100 * time.Millisecond

// flushing returns the settings of a server for a flush of its log. Postgres waits for commit_delay
// at the point of fsync, with the same lock held, but only if fsync is on.
func flushSettings(slow bool) []string {
	if !slow {
		return []string{"fsync = off"}
	}
	return []string{"fsync = on", fmt.Sprintf("commit_delay = %d", slowFlushTime.Microseconds()), "commit_siblings = 0"}
}

// SlowFlush makes each flush of the primary's log take at least 100 ms, and with it each commit
// that does not share a flush with another one. The setting stays with this server, even if it
// restarts. After a fail-over, the new primary is as fast as before.
func (l *Lab) SlowFlush() error { return l.postgres[0].setSlowFlush(true) }

// QuickFlush ends SlowFlush on both servers, because the primary may have changed.
func (l *Lab) EndSlowFlush() error {
	return errors.Join(l.postgres[0].setSlowFlush(false), l.postgres[1].setSlowFlush(false))
}

func (p *postgres) setSlowFlush(slow bool) error {
	p.slowFlush = slow
	return errors.Join(p.configure(), p.reload())
}
