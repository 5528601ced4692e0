package kittest

import (
	"fmt"
	"os"
	"testing"
)

// Main is for the TestMain of packages that use Postgres: the server is then
// started once and not once per test.
//
//	func TestMain(m *testing.M) { kittest.Main(m) }
func Main(m *testing.M) { os.Exit(RunTests(m)) }

// RunTests is Main for a TestMain that has something of its own to clear up
// afterwards: it returns the exit code.
func RunTests(m *testing.M) int {
	shared.keep()
	code := m.Run()
	if err := shared.release(); err != nil {
		fmt.Fprintln(os.Stderr, "kittest:", err)
		code = max(code, 1)
	}
	return code
}
