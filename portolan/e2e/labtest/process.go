package labtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"portolan.dev/nodeagent/kerneltest/topology"
)

// patience bounds the time for a process to end. It is far longer than a process needs.
const patience = 60 * time.Second

// raceEnv configures the race detector of a daemon. By default it sleeps for a second when the process ends, in case
// other goroutines are about to report a race: that was most of the time of a test that stops several daemons.
const raceEnv = "GORACE=atexit_sleep_ms=0"

// raceReport is the line with which the race detector begins a report.
const raceReport = "WARNING: DATA RACE"

// raceReportSize is the most of a report that is printed, in bytes.
const raceReportSize = 8000

// tailLines is the number of lines of a daemon's log that a failed test prints.
const tailLines = 40

// Process is a daemon in a namespace. It ends with the test, and dies with the test binary.
type Process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	log   string // path of the log
	ended chan struct{}
}

// Start starts a daemon, or a program that Main was given, in a namespace.
func Start(t testing.TB, name, program string, in *topology.Namespace, flags []string) *Process {
	t.Helper()
	return Run(t, name, Command(t, program, flags), in)
}

// Command returns the command of a daemon, or of another program that Main was told of.
func Command(t testing.TB, program string, args []string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), programEnv + "=" + program, raceEnv}
	return cmd
}

// Run starts a command in a namespace; nil: in that of the test.
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
		// The namespace belongs to the thread, and the process dies with the thread, so the thread
		// waits here.
		enter := onThread
		if in != nil {
			enter = in.Do
		}
		err := enter(func() error {
			err := p.cmd.Start()
			started <- err
			if err == nil {
				_ = p.cmd.Wait() // the exit code does not matter, because most processes are told to end
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
		p.checkRaces()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", name, p.tail())
		}
	})
	return p
}

// checkRaces fails the test if the race detector has reported a race in the process.
func (p *Process) checkRaces() {
	p.t.Helper()
	content, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	if at := bytes.Index(content, []byte(raceReport)); at >= 0 {
		p.t.Errorf("%s: %s", p.name, content[at:min(len(content), at+raceReportSize)])
	}
}

// onThread calls a function on a thread that ends with the goroutine.
func onThread(fn func() error) error {
	runtime.LockOSThread()
	return fn()
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop stops the daemon as a supervisor does and waits until it has ended. A second Stop does
// nothing.
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

// Kill kills the daemon and waits until it has ended.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// Pause stops the daemon from running until Continue. Data sent to it waits, and then arrives at
// once.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Continue lets a paused daemon run again.
func (p *Process) Continue() { p.signal(syscall.SIGCONT) }

// signal sends a signal. The process may have ended.
func (p *Process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// LogFile returns the path of the daemon's log.
func (p *Process) LogFile() string { return p.log }

// tail returns the last warnings and errors of the log, and lines that are not log lines, such as a
// panic.
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
