package lab

import (
	"errors"
	"fmt"
	"time"
)

// flushTime is how long a slow flush of Postgres' log takes at least: as long as commit_delay can be.
const flushTime = 100 * time.Millisecond

// flushing returns the settings of a server for a flush of its log. Postgres waits for commit_delay where it would
// wait for the disk, holding the lock that fsync is called under, but only if fsync is on.
func flushing(slow bool) []string {
	if !slow {
		return []string{"fsync = off"}
	}
	return []string{"fsync = on", fmt.Sprintf("commit_delay = %d", flushTime.Microseconds()), "commit_siblings = 0"}
}

// SlowFlush makes each flush of the primary's log take at least 100 ms, and with it each commit that no other one
// shares its flush with. It stays with this server, also through a restart: after a fail-over, the new primary is
// as fast as ever.
func (l *Lab) SlowFlush() error { return l.postgres[0].setFlush(true) }

// QuickFlush ends SlowFlush, whichever server it began with.
func (l *Lab) QuickFlush() error {
	return errors.Join(l.postgres[0].setFlush(false), l.postgres[1].setFlush(false))
}

func (p *postgres) setFlush(slow bool) error {
	p.slow = slow
	return errors.Join(p.configure(), p.reload())
}
