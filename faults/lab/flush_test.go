package lab

import (
	"fmt"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// commitCount is the number of commits that timeCommits measures.
const commitCount = 10

// minSlowTime is the least time that commitCount commits take on a server with slow flushes. Each
// commit needs a flush of its own, because it begins after the previous commit has ended, and
// flushes do not overlap. There are two exceptions. The first commit may share a flush that has
// begun already. And Postgres' log writer, which does not wait for commit_delay, may make every
// second flush unnecessary, because it flushes full pages up to once in 200 ms.
const minSlowTime = commitCount / 2 * slowFlushTime

// timeCommits commits commitCount transactions one after the other on the primary, and returns the
// time that they took.
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
	for range 2 { // the second time back to the first server
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

// awaitCommitDelay waits until new sessions on the primary have the given commit_delay.
func awaitCommitDelay(t *testing.T, l *Lab, want time.Duration) {
	t.Helper()
	kittest.Eventually(t, fmt.Sprintf("a commit_delay of %s", want), func() error {
		var delay int64
		const setting = "SELECT setting::bigint FROM pg_settings WHERE name = 'commit_delay'"
		err := l.postgres[0].query(setting, &delay)
		if err == nil && delay != want.Microseconds() {
			err = fmt.Errorf("commit_delay is %d", delay)
		}
		return err
	})
}

// checkSlowCommits waits until the primary has the settings of SlowFlush, and checks that commits
// are slow.
func checkSlowCommits(t *testing.T, l *Lab) {
	t.Helper()
	awaitCommitDelay(t, l, slowFlushTime)
	took, err := timeCommits(l)
	must(t, err)
	if took < minSlowTime {
		t.Errorf("%d commits took %s on a slow server, want at least %s", commitCount, took, minSlowTime)
	}
}

// awaitFastCommits waits until no commit on the primary is delayed. It does not measure commits,
// because commits are slow also on a machine with a busy disk.
func awaitFastCommits(t *testing.T, l *Lab) {
	t.Helper()
	awaitCommitDelay(t, l, 0)
}
