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
func Main(m *testing.M) {
	shared.keep()
	code := m.Run()
	if err := shared.release(); err != nil {
		fmt.Fprintln(os.Stderr, "kittest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}
