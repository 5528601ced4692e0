package labtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"portolan.dev/nodeagent/kerneltest/topology"
)

// patience is how long a process may take to end. It is far beyond what it takes.
const patience = 60 * time.Second

// tailLines is how much of a daemon's log a failed test prints.
const tailLines = 40

// Process is a daemon in a namespace. It ends with the test, and dies with the test binary.
type Process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	log   string // file
	ended chan struct{}
}

// Start starts a daemon, or another program that Main was told of, in a namespace.
func Start(t testing.TB, name, program string, in *topology.Namespace, flags []string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, flags...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), programEnv + "=" + program}
	return Run(t, name, cmd, in)
}

// Run starts a command in a namespace.
func Run(t testing.TB, name string, cmd *exec.Cmd, in *topology.Namespace) *Process {
	t.Helper()
	p := &Process{t: t, name: name, cmd: cmd, log: filepath.Join(t.TempDir(), "log"), ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	out, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	started := make(chan error, 1)
	go func() {
		defer close(p.ended)
		// The namespace is that of the thread, and the process dies with the thread: it waits here.
		err := in.Do(func() error {
			err := p.cmd.Start()
			started <- err
			if err == nil {
				_ = p.cmd.Wait() // how it ended is not asked for: mostly it is told to
			}
			return nil
		})
		if err != nil {
			started <- err
		}
		_ = out.Close()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", name, p.tail())
		}
	})
	return p
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop stops the daemon as a supervisor does and waits until it is gone. Stopping twice does nothing.
func (p *Process) Stop() {
	p.Continue()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Errorf("%s did not end within %s of SIGTERM", p.name, patience)
		p.Kill()
	}
}

// Kill kills the daemon and waits until it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// Pause keeps the daemon from running at all until Continue: what is sent to it waits, and then comes at once.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Continue lets a paused daemon run again.
func (p *Process) Continue() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// LogFile is the file that the daemon's log goes to.
func (p *Process) LogFile() string { return p.log }

// tail returns the last warnings and errors of the log, and lines that are no log lines, such as a panic.
func (p *Process) tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	var kept [][]byte
	for line := range bytes.Lines(content) {
		var entry struct{ Level string }
		if json.Unmarshal(line, &entry) == nil && (entry.Level == "INFO" || entry.Level == "DEBUG") {
			continue
		}
		kept = append(kept, line)
	}
	left := max(0, len(kept)-tailLines)
	return fmt.Sprintf("(%d warnings and errors before)\n%s", left, bytes.Join(kept[left:], nil))
}
