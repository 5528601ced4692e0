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

// FreeAddr returns a loopback address that was free a moment before.
func FreeAddr() (string, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return lis.Addr().String(), lis.Close()
}
