//go:build !linux

package announce

import "time"

var started = time.Now()

// bootTime returns the time since the process has started. Only on Linux can a node announce.
func bootTime() time.Duration { return time.Since(started) }
