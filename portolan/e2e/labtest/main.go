package labtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	allocatorprogram "portolan.dev/allocator/program"
	"portolan.dev/dnssvc"
	"portolan.dev/endpointctl"
	"portolan.dev/lbctl"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/nftables"
	agentprogram "portolan.dev/nodeagent/program"
	registryprogram "portolan.dev/registry/program"
	"portolan.dev/services/kit/kittest"
)

const (
	// programEnv is the environment variable with the name of the daemon that a process runs.
	programEnv = "PORTOLAN_LAB_PROGRAM"
	// hubEnv marks the process that runs the tests in the hub.
	hubEnv = "PORTOLAN_LAB_HUB"
	// requireEnv turns tests that cannot run into failures.
	requireEnv = "PORTOLAN_REQUIRE_REAL"
)

// unavailable is the reason why there is no hub. It is empty if there is one.
var unavailable = "TestMain does not call labtest.Main"

var programs = map[string]func() int{
	"registry": registryprogram.Main, "allocator": allocatorprogram.Main, "endpointctl": endpointctl.Main, "lbctl": lbctl.Main, "dnssvc": dnssvc.Main, "nodeagent": agentprogram.Main,
}

// Program is another program than a daemon that a process can run.
type Program struct {
	Name string
	Main func() int
}

// The main goroutine keeps the main thread in the hub. Go never ends that thread, so if it entered
// another namespace, it would keep that namespace forever.
func init() {
	if os.Getenv(hubEnv) != "" {
		runtime.LockOSThread()
	}
}

// Main runs the tests and exits. TestMain calls it. more are programs that Start can run besides
// the daemons.
func Main(m *testing.M, more ...Program) {
	for _, p := range more {
		programs[p.Name] = p.Main
	}
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(programs[name]())
	}
	if os.Getenv(hubEnv) != "" {
		unavailable = ""
		os.Exit(kittest.RunTests(m))
	}
	code, err := inHub()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = max(exit.ExitCode(), 1), nil
	}
	if err != nil { // Need reports it to each test
		unavailable = fmt.Sprintf("network namespaces cannot be made here: %v", err)
		code = kittest.RunTests(m)
	}
	os.Exit(code)
}

// Outside is true in the process that go test starts. It has the machine's network, and the hub has none.
func Outside() bool { return os.Getenv(programEnv) == "" && os.Getenv(hubEnv) == "" }

// inHub runs the tests in namespaces of their own. The mounts that keep namespaces alive end with
// them, and so does the shared memory that a killed Postgres leaves behind.
func inHub() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	runtime.LockOSThread() // the child dies with this thread
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), hubEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	return 0, cmd.Run()
}

// Need skips a test that has no hub, or fails it if such tests are required.
func Need(t testing.TB) {
	t.Helper()
	if unavailable == "" {
		return
	}
	if os.Getenv(requireEnv) == "1" && !strings.HasPrefix(unavailable, "allowed:") {
		t.Fatal(unavailable)
	}
	t.Skip(unavailable)
}

// Modes returns the proxy modes that nodes can have on this kernel, and userspace.
func Modes() []string {
	var modes []string
	if ipvs.Probe("") == nil {
		modes = append(modes, "ipvs")
	}
	if nftables.Probe("") == nil {
		modes = append(modes, "nftables")
	}
	return append(modes, "userspace")
}
