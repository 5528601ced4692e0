package e2e

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds the time of any operation. It is long enough for a busy machine.
const patience = 60 * time.Second

// process is a program under test that runs beside the test.
type process struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan struct{}
	err     error // valid once ended is closed

	mu    sync.Mutex
	lines []string
	seen  chan struct{} // replaced and closed with every line
}

// start runs the command line and copies its output to the test's. The program is stopped when the
// test ends, if not before.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startProgram(t, name, "portolan", args...)
}

// startProgram starts any of Portolan's programs like start.
func startProgram(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, command: exec.Command(filepath.Join(bin, program), args...), ended: make(chan struct{}), seen: make(chan struct{})}
	reader, writer := io.Pipe()
	p.command.Stdout, p.command.Stderr = writer, writer
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(name, reader)
	}()
	go func() {
		p.err = p.command.Wait()
		_ = writer.Close()
		<-read
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) read(name string, r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.t.Logf("%s: %s", name, scanner.Text())
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		close(p.seen)
		p.seen = make(chan struct{})
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r)
}

// await returns the first line that begins with prefix.
func (p *process) await(prefix string) string {
	p.t.Helper()
	return p.awaitLine(prefix, func(line string) bool { return strings.HasPrefix(line, prefix) })
}

// awaitLine returns the first line for which is returns true. If none
// arrives in time, the test fails with the description of the line.
func (p *process) awaitLine(what string, is func(string) bool) string {
	p.t.Helper()
	deadline := time.After(patience)
	for next := 0; ; {
		p.mu.Lock()
		for ; next < len(p.lines); next++ {
			if is(p.lines[next]) {
				line := p.lines[next]
				p.mu.Unlock()
				return line
			}
		}
		seen := p.seen
		p.mu.Unlock()
		select {
		case <-seen:
		case <-p.ended:
			p.t.Fatalf("the program ended (%v) before it said %q", p.err, what)
		case <-deadline:
			p.t.Fatalf("the program did not say %q within %s", what, patience)
		}
	}
}

// said returns the lines so far.
func (p *process) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// signal sends a signal and waits for the end.
func (p *process) signal(s syscall.Signal) error {
	p.t.Helper()
	_ = p.command.Process.Signal(s)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		p.kill()
		p.t.Fatalf("the program did not end within %s of %s", patience, s)
		return nil
	}
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// runProgram runs a program to its end and returns its output.
func runProgram(t *testing.T, stdin string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var out, errOut bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &out, &errOut
	err = command.Run()
	return out.String(), errOut.String(), err
}

// childPID returns the ID of the process that `portolan run` has started.
func (p *process) childPID() int {
	p.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		p.t.Fatal(err)
	}
	var children []int
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // the process has ended
		}
		// "pid (name) state parent …", where the name may contain any character.
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(p.command.Process.Pid) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil {
			p.t.Fatal(err)
		}
		children = append(children, pid)
	}
	if len(children) != 1 {
		p.t.Fatalf("child processes %v, want one", children)
	}
	return children[0]
}
