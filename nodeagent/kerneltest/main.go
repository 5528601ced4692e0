package kerneltest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// childEnv marks the process that runs the tests in the guest.
const childEnv = "PORTOLAN_KERNEL_GUEST"

// requireEnv makes tests without a kernel fail instead of being skipped.
const requireEnv = "PORTOLAN_REQUIRE_REAL"

// unavailable is the reason why there is no kernel to test. It is empty in the guest.
var unavailable = "TestMain does not call kerneltest.Main"

// Main runs the tests of a package in the guest. TestMain must call it. The guest gets the programs of this
// machine that are named, for tests that call NeedProgram. It does not return.
func Main(m *testing.M, programs ...string) {
	switch {
	case os.Getpid() == 1:
		initGuest() // does not return
	case os.Getenv(childEnv) != "":
		unavailable = ""
		os.Exit(m.Run())
	case listsOrFuzzes(os.Args[1:]):
		os.Exit(m.Run())
	}
	vm, err := newMachine()
	if err != nil { // Need reports it in each test
		unavailable = err.Error()
		os.Exit(m.Run())
	}
	vm.programs = programs
	code, err := vm.run(guestArgs(os.Args[1:]), testTimeout(os.Args[1:]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "kerneltest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// MainOrNative does the same as Main, but runs the tests on this machine's own kernel if possible,
// which is much faster. The tests must run in network namespaces of their own and need no more of
// the kernel than probe checks. probe is called in a new namespace.
func MainOrNative(m *testing.M, probe func() error) {
	if os.Getpid() != 1 && os.Getenv(childEnv) == "" && native(probe) == nil {
		unavailable = ""
		os.Exit(m.Run())
	}
	Main(m)
}

// Need skips a test if there is no kernel for it, or fails it if such tests are required.
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

// hostFlags are the flags about files of the host or for the host only.
var hostFlags = []string{
	"testlogfile", "outputdir", "coverprofile", "gocoverdir", "cpuprofile", "memprofile", "blockprofile",
	"mutexprofile", "trace", "fuzzcachedir",
}

// guestArgs returns the arguments that are meaningful in the guest.
func guestArgs(args []string) []string {
	var out []string
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		drop := false
		for _, f := range hostFlags {
			drop = drop || name == "test."+f
		}
		if !drop {
			out = append(out, arg)
		}
	}
	return out
}

// listsOrFuzzes reports whether the program only lists its tests, or fuzzes. Fuzz targets need no
// kernel, and could not write their findings into files of the host.
func listsOrFuzzes(args []string) bool {
	for _, arg := range args {
		if name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); (name == "test.list" || name == "test.fuzz") && value != "" {
			return true
		}
	}
	return false
}
