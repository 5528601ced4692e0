package systemdtest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// requireEnv turns tests that cannot run into failures.
const requireEnv = "PORTOLAN_REQUIRE_REAL"

// unitDir is the folder for units.
const unitDir = "/etc/systemd/system"

// boot is the script that prepares the namespaces and becomes systemd.
//
//go:embed boot.sh
var boot string

// sweep removes a machine's cgroups.
//
//go:embed sweep.sh
var sweep string

// started counts the machines of this process, for the names of their cgroups.
var started atomic.Int64

// Machine is a systemd in namespaces of its own.
type Machine struct {
	t   testing.TB
	pid string // of systemd, in the namespace of the test
}

// Start boots a systemd, and stops it when the test ends. Without root or a program that it takes, the
// test is skipped, or fails if PORTOLAN_REQUIRE_REAL=1.
func Start(t testing.TB) *Machine {
	t.Helper()
	if reason := unavailable(); reason != "" {
		if os.Getenv(requireEnv) == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	cgroup := fmt.Sprintf("portolan-test-%d-%d", os.Getpid(), started.Add(1))
	var output bytes.Buffer
	cmd := exec.Command("sh", "-c", boot, "sh", cgroup)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	m := &Machine{t: t, pid: strconv.Itoa(cmd.Process.Pid)}
	t.Cleanup(func() {
		// An error means that it has ended already.
		_ = cmd.Process.Kill()
		<-ended
		removeCgroups(t, cgroup)
	})
	kittest.Eventually(t, "systemd to start", func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("systemd has not started: %v\n%s", err, &output)
		default:
		}
		// systemd has acquired its name on the bus if it can be asked by that name.
		_, err := m.Run("busctl", "--system", "get-property", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "Version")
		return err
	})
	return m
}

// unavailable returns why no systemd can be booted here, and "" if one can.
func unavailable() string {
	if os.Geteuid() != 0 {
		return "needs root: it boots a systemd in namespaces of its own"
	}
	for _, need := range []struct{ program, pkg string }{
		{"unshare", "util-linux"}, {"nsenter", "util-linux"}, {"systemctl", "systemd"}, {"busctl", "systemd"}, {"dbus-daemon", "dbus-daemon"},
	} {
		if _, err := exec.LookPath(need.program); err != nil {
			return fmt.Sprintf("no %s here: install it (Debian: apt-get install %s)", need.program, need.pkg)
		}
	}
	return ""
}

func removeCgroups(t testing.TB, cgroup string) {
	kittest.Eventually(t, "the machine's cgroups to be removed", func() error {
		out, err := exec.Command("unshare", "--mount", "sh", "-c", sweep, "sh", cgroup, t.TempDir()).CombinedOutput() // #nosec G204 -- a script of this package
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// Root is the folder with the machine's files.
func (m *Machine) Root() string { return "/proc/" + m.pid + "/root" }

// Path returns the path, outside of the machine, of a file in it.
func (m *Machine) Path(inside string) string { return m.Root() + inside }

// BusAddress is the D-Bus address of the machine's system bus.
func (m *Machine) BusAddress() string {
	return "unix:path=" + m.Path("/run/dbus/system_bus_socket")
}

// Write writes a file in the machine, and the folders above it.
func (m *Machine) Write(inside, content string) {
	m.t.Helper()
	path := m.Path(inside)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)) // #nosec G301 G306 -- as unit files are
	if err != nil {
		m.t.Fatal(err)
	}
}

// WriteUnit writes a unit file, or a drop-in such as web.service.d/port.conf. systemd reads it at the
// first use of the unit, or at the next daemon-reload.
func (m *Machine) WriteUnit(name, content string) {
	m.t.Helper()
	m.Write(unitDir+"/"+name, content)
}

// Remove removes a file in the machine, or a folder with all that it has.
func (m *Machine) Remove(inside string) {
	m.t.Helper()
	if err := os.RemoveAll(m.Path(inside)); err != nil {
		m.t.Fatal(err)
	}
}

// Run runs a program of the real machine in the machine, as root, and returns its standard output.
func (m *Machine) Run(program string, args ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--target", m.pid, "--all", program}, args...)...) // #nosec G204 -- for tests
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// Systemctl runs systemctl in the machine and returns its output. The test fails if it does.
func (m *Machine) Systemctl(args ...string) string {
	m.t.Helper()
	out, err := m.Run("systemctl", args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}
