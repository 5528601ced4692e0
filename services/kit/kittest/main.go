package kittest

import (
	"fmt"
	"os"
	"testing"
)

// Main is for the TestMain of packages that use Postgres. With it the server is started once per
// package instead of once per test.
//
//	func TestMain(m *testing.M) { kittest.Main(m) }
func Main(m *testing.M) { os.Exit(RunTests(m)) }

// RunTests is Main for a TestMain with its own cleanup. It returns the exit code.
func RunTests(m *testing.M) int {
	shared.keep()
	code := m.Run()
	if err := shared.release(); err != nil {
		fmt.Fprintln(os.Stderr, "kittest:", err)
		code = max(code, 1)
	}
	return code
}
