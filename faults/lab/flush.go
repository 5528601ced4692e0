package lab

import (
	"errors"
	"fmt"
	"time"
)

// slowFlushTime is the least time that a slow flush of Postgres' log takes. It is the largest value
// that Postgres permits for commit_delay.
const slowFlushTime = 100 * time.Millisecond

// flushSettings returns the Postgres settings for slow or fast flushes of the log. Postgres waits
// for commit_delay just before fsync, with the same lock held, but only if fsync is on.
func flushSettings(slow bool) []string {
	if !slow {
		return []string{"fsync = off"}
	}
	return []string{"fsync = on", fmt.Sprintf("commit_delay = %d", slowFlushTime.Microseconds()), "commit_siblings = 0"}
}

// SlowFlush makes each flush of the primary's log take at least 100 ms, so each commit takes at
// least as long unless it shares a flush with another commit. The server keeps the setting if it
// restarts. After a fail-over, flushes of the new primary are fast.
func (l *Lab) SlowFlush() error { return l.postgres[0].setSlowFlush(true) }

// EndSlowFlush undoes SlowFlush. It changes both servers, because the primary may have changed.
func (l *Lab) EndSlowFlush() error {
	return errors.Join(l.postgres[0].setSlowFlush(false), l.postgres[1].setSlowFlush(false))
}

func (p *postgres) setSlowFlush(slow bool) error {
	p.slowFlush = slow
	return errors.Join(p.configure(), p.reload())
}
