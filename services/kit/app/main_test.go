package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
)

// program is the environment variable that makes the test binary run Main as a child process,
// because signals and exit codes can only be tested in a separate process.
const program = "PORTOLAN_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if what := os.Getenv(program); what != "" {
		os.Exit(app.Main("prog", func(ctx context.Context, _ []string) error { return behave(ctx, what) }))
	}
	os.Exit(m.Run())
}

func behave(ctx context.Context, what string) error {
	switch what {
	case "done":
		return config.ErrDone
	case "error":
		return errors.New("broken")
	case "usage":
		return fmt.Errorf("%w: what?", config.ErrUsage)
	case "config":
		return fmt.Errorf("%w: lease", config.ErrInvalid)
	case "wait":
		fmt.Println("up")
		<-ctx.Done()
	case "deaf":
		fmt.Println("up")
		<-ctx.Done()
		fmt.Println("signalled")
		select {}
	}
	return nil
}

func start(t *testing.T, what string) (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), program+"="+what)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out), &stderr
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		what   string
		code   int
		stderr string
	}{
		{"ok", app.ExitOK, ""},
		{"done", app.ExitOK, ""},
		{"error", app.ExitError, "prog: broken\n"},
		{"usage", app.ExitUsage, "prog: wrong usage: what?\n"},
		{"config", app.ExitConfig, "prog: invalid configuration: lease\n"},
	}
	for _, tt := range tests {
		cmd, _, stderr := start(t, tt.what)
		_ = cmd.Wait() // the state has the exit code
		if got := cmd.ProcessState.ExitCode(); got != tt.code || stderr.String() != tt.stderr {
			t.Errorf("%s: exit code %d and %q, want %d and %q", tt.what, got, stderr, tt.code, tt.stderr)
		}
	}
}

func TestSignalEndsTheContext(t *testing.T) {
	cmd, out, stderr := start(t, "wait")
	expect(t, out, "up")
	signal(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr)
	}
}

func TestSecondSignalKills(t *testing.T) {
	cmd, out, _ := start(t, "deaf")
	expect(t, out, "up")
	signal(t, cmd)
	expect(t, out, "signalled")
	// The handler is removed right after the context has ended. A signal that arrives before that
	// is lost, so the test sends signals until the process has ended.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // the process state tells which signal killed it
	}()
	kittest.Eventually(t, "the end of the process", func() error {
		select {
		case <-gone:
			return nil
		default:
			return errors.Join(errors.New("still there"), cmd.Process.Signal(syscall.SIGTERM))
		}
	})
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want killed by SIGTERM", cmd.ProcessState)
	}
}

func expect(t *testing.T, out *bufio.Scanner, want string) {
	t.Helper()
	if !out.Scan() || out.Text() != want {
		t.Fatalf("got %q, want %q", out.Text(), want)
	}
}

func signal(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
