package announce

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since the machine has started, which includes the time in which it was
// suspended.
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // every kernel that Go supports has the clock
	}
	return time.Duration(now.Nano())
}
