package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAsAnotherUser runs the tests of this package again as a user without privileges.
func TestAsAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // this is the run as another user
	}
	dir := t.TempDir()
	chmod(t, filepath.Dir(dir), 0o755)
	program := filepath.Join(dir, "script.test")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, program, string(binary))
	temporary := filepath.Join(dir, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(temporary, otherUser, otherUser); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.timeout=2m") // #nosec G204 -- this test
	cmd.Env, cmd.Dir = append(os.Environ(), "TMPDIR="+temporary), temporary
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// outputOf returns the output of a script. The script fails, because only failures report the output.
func outputOf(t *testing.T, script string, args ...string) string {
	t.Helper()
	f, _ := newFolder(t, "#!/bin/sh\n"+script+"\nexit 7\n")
	err := f.Check(append([]string{"check"}, args...), Pod{Namespace: "shop", Name: "web-1", IP: "10.0.0.1"})(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "script check: exit status 7") {
		t.Fatalf("the error is %v", err)
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "script check: exit status 7"), ": ")
}

func TestExitCode(t *testing.T) {
	for script, part := range map[string]string{"exit 0": "", "echo hello": "", "exit 3": "exit status 3", "kill -9 $$": "signal: killed", "echo no >&2; exit 1": "exit status 1: no"} {
		f, _ := newFolder(t, "#!/bin/sh\n"+script+"\n")
		err := f.Check([]string{"check"}, Pod{})(t.Context())
		if (err == nil) != (part == "") || err != nil && (!strings.Contains(err.Error(), part) || errors.Is(err, ErrRefused)) {
			t.Errorf("%s: %v, want %q", script, err, part)
		}
	}
	f, _ := newFolder(t, "#!/no/such/interpreter\n")
	if err := f.Check([]string{"check"}, Pod{})(t.Context()); err == nil {
		t.Error("a script without its interpreter has succeeded")
	}
}

// TestPrivileges checks that a script runs as its user and cannot gain privileges.
func TestPrivileges(t *testing.T) {
	want := fmt.Sprintf("%d %d %[2]d", os.Getuid(), os.Getgid())
	if os.Geteuid() == 0 {
		want = "65534 65534 65534"
	}
	if got := outputOf(t, `echo $(id -u) $(id -g) $(id -G)`); got != want {
		t.Errorf("a script has the user and groups %q, want %q", got, want)
	}
	status := outputOf(t, "grep -E '^(NoNewPrivs|CapEff|CapPrm|CapAmb):' /proc/self/status | tr -d '\\t'")
	for _, line := range []string{"NoNewPrivs:1", "CapEff:0000000000000000", "CapPrm:0000000000000000", "CapAmb:0000000000000000"} {
		if !strings.Contains(status, line) {
			t.Errorf("the status of a script is %q, without %s", status, line)
		}
	}
}

// TestEnvironment checks that a script has nothing of the agent's environment but PATH, reads nothing,
// and gets its arguments without a shell.
func TestEnvironment(t *testing.T) {
	t.Setenv("PORTOLAN_TOKEN", "secret")
	allowed := map[string]bool{
		"PATH=" + os.Getenv("PATH"): true, "PORTOLAN_POD_NAMESPACE=shop": true, "PORTOLAN_POD_NAME=web-1": true, "PORTOLAN_POD_IP=10.0.0.1": true,
		"PWD=/": true, // the shell's
	}
	lines := strings.Fields(outputOf(t, "tr '\\0' '\\n' </proc/self/environ"))
	if len(lines) < 4 {
		t.Errorf("the environment is %q", lines)
	}
	for _, line := range lines {
		if !allowed[line] {
			t.Errorf("a script has %s", line)
		}
	}
	if got := outputOf(t, `printf '<%s>' "$@"; cat; pwd`, "$(id)", "a b;", ""); got != "<$(id)><a b;><>/" {
		t.Errorf("arguments and input are %q", got)
	}
}

func TestOutputIsBounded(t *testing.T) {
	got := outputOf(t, "head -c 1000000 /dev/zero | tr '\\0' x; printf '\\377'")
	if len(got) != maxOutput {
		t.Errorf("%d bytes of output are kept, want %d", len(got), maxOutput)
	}
}

// fifo makes a named pipe that all users can write, and returns a channel that is closed when all of its
// writers have closed it.
func fifo(t *testing.T) (path string, gone chan struct{}) {
	t.Helper()
	dir := t.TempDir()
	chmod(t, filepath.Dir(dir), 0o755)
	path = filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, 0o666)
	gone = make(chan struct{})
	go func() {
		defer close(gone)
		f, err := os.Open(path) // waits for a writer
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = io.Copy(io.Discard, f)
	}()
	return path, gone
}

func waitFor(t *testing.T, gone chan struct{}) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("a process of the script is still there")
	}
}

// TestTimeout checks that a script that takes too long is ended together with the processes that it started.
func TestTimeout(t *testing.T) {
	f, _ := newFolder(t, "#!/bin/sh\nexec 3>\"$1\"\n(sleep 3600; true) &\nsleep 3600\n")
	path, gone := fifo(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := f.Check([]string{"check", path}, Pod{})(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	if f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
		_ = f.Close() // for a script that ended before it opened the pipe
	}
	waitFor(t, gone)
}

// TestNothingStays checks that the processes that a script leaves behind are ended after it.
func TestNothingStays(t *testing.T) {
	f, _ := newFolder(t, "#!/bin/sh\nexec 3>\"$1\"\nsleep 3600 &\n")
	path, gone := fifo(t)
	if err := f.Check([]string{"check", path}, Pod{})(t.Context()); err != nil {
		t.Error(err)
	}
	waitFor(t, gone)
}

// TestAProcessThatLeavesTheGroup checks that the check does not wait for a process that has left the
// group and holds the output open.
func TestAProcessThatLeavesTheGroup(t *testing.T) {
	f, _ := newFolder(t, "#!/bin/sh\nsetsid sh -c 'echo >\"$0\"; exec sleep 5' \"$1\" &\nread x <\"$2\"\n")
	left := filepath.Join(t.TempDir(), "left")
	chmod(t, filepath.Dir(filepath.Dir(left)), 0o755)
	if err := unix.Mkfifo(left, 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, left, 0o666)
	begin := time.Now()
	if err := f.Check([]string{"check", left, left}, Pod{})(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the check took %s: it has waited for the process", took)
	}
}
