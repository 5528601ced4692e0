package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/services/kit/kittest"
)

// TestClientNeedsNoLabels checks that a program without labels gets the environment of its
// namespace and is behind no service.
func TestClientNeedsNoLabels(t *testing.T) {
	i := install(t)
	i.apply(firstService)
	out, errOut, err := i.try("", "run", "--name", "client", "--", "sh", "-c", "echo $MY_SERVICE_SERVICE_HOST")
	if err != nil || strings.TrimSpace(out) != i.vip("my-service") {
		t.Errorf("the client sees %q, %v; want %s\n%s", out, err, i.vip("my-service"), errOut)
	}
}

// TestProgramsFindNamesUnasked checks that a program finds services by their short names, through a
// resolv.conf of its own. Without the privileges for it, or without a name server on port 53, the
// program has the search path in its environment.
func TestProgramsFindNamesUnasked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("allowed: only root listens on port 53 and makes mount namespaces")
	}
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	i.startDev("--dns-addr", i.network.Addr("0.1", 53))
	i.apply(firstService)
	hosts, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	i.awaitOutput(i.vip("my-service"), "run", "--name", "client", "--", "sh", "-c", "getent ahostsv4 my-service | cut -d ' ' -f 1 | sort -u")
	if after, err := os.ReadFile("/etc/resolv.conf"); err != nil || string(after) != string(hosts) {
		t.Errorf("the host's resolv.conf was changed: %q, %v", after, err)
	}
	i.awaitOutput("default.svc.cluster.local", "run", "--name", "plain", "--nameserver", "none", "--", "sh", "-c", "echo ${LOCALDOMAIN%% *}")
	if _, errOut, err := i.try("", "run", "--name", "code", "--", "sh", "-c", "exit 7"); exitCode(err) != 7 {
		t.Errorf("the program's exit code is lost: %v\n%s", err, errOut)
	}
	if _, errOut, err := i.try("", "run", "--name", "none", "--", "no-such-program"); exitCode(err) != 1 || !strings.Contains(errOut, "no-such-program") {
		t.Errorf("a program that is not there: %v\n%s", err, errOut)
	}
}

// TestProgramEndsWithItsRunner checks that a program with a resolv.conf of its own is stopped when
// `portolan run` is killed.
func TestProgramEndsWithItsRunner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("allowed: only root listens on port 53 and makes mount namespaces")
	}
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	i.startDev("--dns-addr", i.network.Addr("0.1", 53))
	runner := i.backend("left", "--", "sh", "-c", "echo started; exec sleep 600")
	runner.await("started")
	program := runner.childPID()
	t.Cleanup(func() { _ = syscall.Kill(program, syscall.SIGKILL) })
	if err := runner.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the program has ended", func() error {
		if err := syscall.Kill(program, 0); err == nil {
			return fmt.Errorf("process %d still runs", program)
		}
		return nil
	})
}

// awaitOutput waits until a command prints a line.
func (i *installation) awaitOutput(want string, args ...string) {
	i.Helper()
	kittest.Eventually(i.T, strings.Join(args, " "), func() error {
		out, errOut, err := i.try("", args...)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("printed %q, want %q\n%s", out, want, errOut)
		}
		return err
	})
}
