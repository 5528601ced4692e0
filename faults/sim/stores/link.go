package stores

import (
	"context"
	"time"

	"portolan.dev/faults/sim/netem"
)

// link is the connection between a daemon and its store.
type link struct {
	emulator *netem.Emulator // if nil, there are no delays and losses
	name     string
}

// next returns the fate of the next message on the link.
func (l link) next() netem.Fate {
	if l.emulator == nil {
		return netem.Fate{}
	}
	return l.emulator.Next(l.name)
}

// sleep waits for the given time or until ctx is done. It reports whether the time has passed.
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
