package lab

import (
	"fmt"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// flushed is the number of commits that tell a slow server from a fast one.
const flushed = 10

// slowly is the shortest time that this many commits take on a slow server. Each commit has a flush
// of its own, because it begins after the previous one has ended, and flushes do not overlap. Only
// the first may share a flush that has begun already. Postgres' log writer, which does not wait for
// commit_delay, flushes full pages at most every 200 ms, so it may save every second commit its
// flush.
const slowly = flushed / 2 * flushTime

// commit commits transactions one after the other on the primary, and returns how long that took.
func commit(l *Lab) (time.Duration, error) {
	began := time.Now()
	for range flushed {
		const write = "SELECT (pg_logical_emit_message(true, 'lab', '') IS NOT NULL)::int"
		if err := l.postgres[0].query(write, new(int)); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func slowFlush(t *testing.T, l *Lab) {
	for range 2 { // and back
		must(t, l.SlowFlush())
		commitSlowly(t, l)
		must(t, l.FailOver())
		commitQuickly(t, l)
		must(t, l.SlowFlush())
		must(t, l.Rejoin())
		commitSlowly(t, l)
		must(t, l.QuickFlush())
		commitQuickly(t, l)
	}
	awaitWrite(t, l, "flushed")
}

// commitSlowly checks that the primary is slow. A session keeps the settings that the server had
// when the session began.
func commitSlowly(t *testing.T, l *Lab) {
	t.Helper()
	kittest.Eventually(t, "the settings of a slow flush", func() error {
		var delay int64
		const setting = "SELECT setting::bigint FROM pg_settings WHERE name = 'commit_delay'"
		err := l.postgres[0].query(setting, &delay)
		if err == nil && delay != flushTime.Microseconds() {
			err = fmt.Errorf("commit_delay is %d", delay)
		}
		return err
	})
	took, err := commit(l)
	must(t, err)
	if took < slowly {
		t.Errorf("%d commits took %s on a slow server, want at least %s", flushed, took, slowly)
	}
}

// commitQuickly waits until the primary is faster than a slow server can be.
func commitQuickly(t *testing.T, l *Lab) {
	t.Helper()
	kittest.Eventually(t, "commits as fast as ever", func() error {
		took, err := commit(l)
		if err == nil && took >= slowly {
			err = fmt.Errorf("%d commits took %s", flushed, took)
		}
		return err
	})
}
