package obs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Outage logs that something fails which is tried again and again: one line when
// that begins, and one when it works again, with the length and the number of
// failures. Its methods may be called concurrently.
type Outage struct {
	// Log must be given.
	Log *slog.Logger
	// Down and Up are the messages of the two lines.
	Down, Up string
	// Tolerate is the length that is not worth a line.
	Tolerate time.Duration

	mu       sync.Mutex
	since    time.Time // guarded by mu: of the first failure; zero while all is well
	failures int       // guarded by mu
	told     bool      // guarded by mu
}

// Failed counts a failure. The first one that comes after what is tolerated is
// logged as a warning, with its error and attrs.
func (o *Outage) Failed(err error, attrs ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failures++; o.failures == 1 {
		o.since = time.Now()
	}
	if o.told || time.Since(o.since) < o.Tolerate {
		return
	}
	o.told = true
	o.Log.Log(context.Background(), slog.LevelWarn, o.Down, append([]any{"err", err}, attrs...)...)
}

// Over ends the outage and reports whether it was told; then its end is logged,
// with attrs. Without an outage it does nothing.
func (o *Outage) Over(attrs ...any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.told
	if told {
		length := time.Since(o.since).Round(time.Millisecond)
		o.Log.Info(o.Up, append([]any{"after", length, "failures", o.failures}, attrs...)...)
	}
	o.since, o.failures, o.told = time.Time{}, 0, false
	return told
}
