package lab

import (
	"fmt"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// flushed is the number of commits that tell a slow server from a fast one.
const commitCount = 10

// slowly is the shortest time that this many commits take on a slow server. Each commit has a flush
// of its own, because it begins after the previous one has ended, and flushes do not overlap. Only
// the first may share a flush that has begun already. Postgres' log writer, which does not wait for
// commit_delay, flushes full pages at most every 200 ms, so it may save every second commit its
// flush.
const minSlowTime = commitCount / 2 * slowFlushTime

// commit commits transactions one after the other on the primary, and returns how long that took.
func timeCommits(l *Lab) (time.Duration, error) {
	began := time.Now()
	for range commitCount {
		const write = "SELECT (pg_logical_emit_message(true, 'lab', '') IS NOT NULL)::int"
		if err := l.postgres[0].query(write, new(int)); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func testSlowFlush(t *testing.T, l *Lab) {
	for range 2 { // and back
		must(t, l.SlowFlush())
		checkSlowCommits(t, l)
		must(t, l.FailOver())
		awaitFastCommits(t, l)
		must(t, l.SlowFlush())
		must(t, l.Rejoin())
		checkSlowCommits(t, l)
		must(t, l.EndSlowFlush())
		awaitFastCommits(t, l)
	}
	awaitCreateService(t, l, "flushed")
}

// commitSlowly checks that the primary is slow. A session keeps the settings that the server had
// when the session began.
func checkSlowCommits(t *testing.T, l *Lab) {
	t.Helper()
	kittest.Eventually(t, "the settings of a slow flush", func() error {
		var delay int64
		const setting = "SELECT setting::bigint FROM pg_settings WHERE name = 'commit_delay'"
		err := l.postgres[0].query(setting, &delay)
		if err == nil && delay != slowFlushTime.Microseconds() {
			err = fmt.Errorf("commit_delay is %d", delay)
		}
		return err
	})
	took, err := timeCommits(l)
	must(t, err)
	if took < minSlowTime {
		t.Errorf("%d commits took %s on a slow server, want at least %s", commitCount, took, minSlowTime)
	}
}

// commitQuickly waits until the primary is faster than a slow server can be.
func awaitFastCommits(t *testing.T, l *Lab) {
	t.Helper()
	kittest.Eventually(t, "commits as fast as ever", func() error {
		took, err := timeCommits(l)
		if err == nil && took >= minSlowTime {
			err = fmt.Errorf("%d commits took %s", commitCount, took)
		}
		return err
	})
}
