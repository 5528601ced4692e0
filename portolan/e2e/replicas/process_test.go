package replicas

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds the time of any operation. It is long enough for a busy machine.
const patience = 2 * time.Minute

// process is a daemon under test. It dies with the test binary.
type process struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan struct{}

	mu    sync.Mutex
	lines []map[string]any
	seen  chan struct{} // replaced and closed with every line
}

func start(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, command: command(t, program, args...), ended: make(chan struct{}), seen: make(chan struct{})}
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	reader, writer := io.Pipe()
	p.command.Stdout, p.command.Stderr = writer, writer
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when the thread that started the process ends
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // the exit code does not matter, because most processes are killed
		}
		_ = writer.Close()
	}()
	go func() {
		defer close(p.ended)
		p.read(name, reader)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// command returns a program under test with an environment of PATH only.
func command(t *testing.T, program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(bin, program), args...)
	c.Dir = t.TempDir()
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	return c
}

// read collects the log. It copies all lines above level debug to the test's log.
func (p *process) read(name string, r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line map[string]any
		if json.Unmarshal(scanner.Bytes(), &line) != nil || line["level"] != "DEBUG" {
			p.t.Logf("%s: %s", name, scanner.Text())
		}
		p.mu.Lock()
		p.lines = append(p.lines, line)
		close(p.seen)
		p.seen = make(chan struct{})
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r)
}

// await returns an attribute of the first log line with a message.
func (p *process) await(msg, attr string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for next := 0; ; {
		p.mu.Lock()
		for ; next < len(p.lines); next++ {
			if p.lines[next]["msg"] == msg {
				value, _ := p.lines[next][attr].(string)
				p.mu.Unlock()
				return value
			}
		}
		seen := p.seen
		p.mu.Unlock()
		select {
		case <-seen:
		case <-p.ended:
			p.t.Fatalf("the process ended before it said %q", msg)
		case <-deadline:
			p.t.Fatalf("the process did not say %q within %s", msg, patience)
		}
	}
}

// kill is kill -9. It accepts a process that has ended already.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// runs runs a command to its end, which must succeed.
func runs(t *testing.T, program string, args ...string) {
	t.Helper()
	c := command(t, program, args...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}
