//go:build unix

package yardstick

import (
	"syscall"
	"time"
)

// CPUOfSelf returns the CPU time of this process. Unlike the time on the clock, it hardly depends on other
// work of the machine.
func CPUOfSelf() time.Duration { return usage(syscall.RUSAGE_SELF) }

// CPUOfExited returns the CPU time of the child processes of this one that have exited.
func CPUOfExited() time.Duration { return usage(syscall.RUSAGE_CHILDREN) }

func usage(of int) time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(of, &used) // fails for an unknown constant only
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
