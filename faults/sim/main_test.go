package sim

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMain runs the tests on one processor, because parallel goroutines make runs of the same
// schedule differ. It makes garbage collections rare, because schedules allocate much memory and
// keep none of it.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(2000)
	os.Exit(m.Run())
}
