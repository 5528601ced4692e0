package sim

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMain runs all on one processor, since goroutines that run at the same time make schedules
// differ from one run to the next, and lets garbage lie for much longer, since schedules leave much
// of it and keep nothing.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(2000)
	os.Exit(m.Run())
}
