package rig

import (
	"net"
	"os/exec"
	"syscall"
	"time"

	"portolan.dev/services/kit/yardstick"
)

// Process is a process that a benchmark has started by itself.
type Process struct{ Cmd *exec.Cmd }

// Stop ends the process by SIGTERM and waits for it.
func (p Process) Stop() { stop(p.Cmd, syscall.SIGTERM) }

// CPU returns the CPU time that the process has used.
func (p Process) CPU() time.Duration { return yardstick.CPU(p.Cmd.Process.Pid) }

// stop ends a process and waits for it.
func stop(cmd *exec.Cmd, sig syscall.Signal) {
	_ = cmd.Process.Signal(sig)
	_ = cmd.Wait()
}

// CPUOfSelf returns the CPU time of this process.
func CPUOfSelf() time.Duration { return rusage(syscall.RUSAGE_SELF) }

// CPUOfExited returns the CPU time of the child processes of this one that have exited.
func CPUOfExited() time.Duration { return rusage(syscall.RUSAGE_CHILDREN) }

func rusage(who int) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// FreeAddr returns a loopback address that was free a moment before.
func FreeAddr() (string, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return lis.Addr().String(), lis.Close()
}
