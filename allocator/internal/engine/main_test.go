package engine

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain asks for fewer random runs than is usual: each writes to a disk.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
