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
	ended, started := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code does not matter, because the process is told to end
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
		<-ended
	})
}
