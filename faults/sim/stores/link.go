package stores

import (
	"context"
	"time"

	"portolan.dev/faults/sim/netem"
)

// link is the way from a daemon to its store.
type link struct {
	emulator *netem.Emulator // nil: nothing is late or lost
	name     string
}

// next decides about the next request on the link.
func (l link) next() netem.Fate {
	if l.emulator == nil {
		return netem.Fate{}
	}
	return l.emulator.Next(l.name)
}

// pause waits and reports whether ctx still lasts.
func sleep(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
