package obs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Outage logs failures of an operation that is retried: one line at the first failure, and one line
// with the duration and the number of failures when the operation succeeds again. Its methods are
// safe for concurrent use.
type Outage struct {
	// Log must be given.
	Log *slog.Logger
	// Down and Up are the messages of the first and the second line.
	Down, Up string
	// Tolerate is the duration of an outage that is not logged.
	Tolerate time.Duration

	mu sync.Mutex
	// since is the time of the first failure, or zero while there is no outage. Guarded by mu.
	since    time.Time
	failures int // guarded by mu
	// logged reports whether the outage has been logged. Guarded by mu.
	logged bool
}

// Failed records a failure. It logs a warning, with the error and attrs, for the first failure
// after more than Tolerate.
func (o *Outage) Failed(err error, attrs ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failures++; o.failures == 1 {
		o.since = time.Now()
	}
	if o.logged || time.Since(o.since) < o.Tolerate {
		return
	}
	o.logged = true
	o.Log.Log(context.Background(), slog.LevelWarn, o.Down, append([]any{"err", err}, attrs...)...)
}

// Over ends the outage. If the outage was logged, Over logs its end, with attrs, and returns true.
// Without an outage it does nothing.
func (o *Outage) Over(attrs ...any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.logged
	if told {
		length := time.Since(o.since).Round(time.Millisecond)
		o.Log.Info(o.Up, append([]any{"after", length, "failures", o.failures}, attrs...)...)
	}
	o.since, o.failures, o.logged = time.Time{}, 0, false
	return told
}
