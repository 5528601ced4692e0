package app

import (
	"context"
	"time"
)

// Pause waits for d or until ctx is done. It reports whether the whole time passed.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
