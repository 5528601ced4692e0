package yardstick

import (
	"os"
	"syscall"
	"testing"
)

// TestProcess compares the figures of this process with each other, after it has used CPU time.
func TestProcess(t *testing.T) {
	for CPU(os.Getpid()) < 2*Tick { // until it has used some
	}
	own, group := CPU(os.Getpid()), CPUOfGroup(syscall.Getpgrp())
	if group < own {
		t.Errorf("this process has used %s, and its group %s", own, group)
	}
	if user, system := CPUOfTree(os.Getpid()); user+system < own {
		t.Errorf("this process and its children have used %s and %s, this process %s", user, system, own)
	}
	if now, peak := Memory(os.Getpid()); now < 1<<20 || peak < now {
		t.Errorf("this process has %d bytes, at most %d", now, peak)
	}
	const none = 1 << 30
	if now, peak := Memory(none); CPU(none) != 0 || now != 0 || peak != 0 {
		t.Errorf("a process that does not exist has used %s and has %d bytes", CPU(none), now)
	}
}
