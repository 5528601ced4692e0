package kittest

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// StartProcess starts a process in a process group of its own. When the test ends, StartProcess sends it
// SIGTERM and waits for its end. If the test is killed, the kernel sends SIGTERM.
func StartProcess(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	ended := make(chan struct{})
	// The exit code does not matter, because the process is told to end.
	if err := startOnThread(cmd, func(error) { close(ended) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
		<-ended
	})
}

// startOnThread starts a process on a thread that waits for its end, because the kernel sends Pdeathsig when
// the thread ends that has started the process. exited gets the result of cmd.Wait.
func startOnThread(cmd *exec.Cmd, exited func(error)) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited(cmd.Wait())
		}
	}()
	return <-started
}
