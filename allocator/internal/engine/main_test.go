package engine

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestMain reduces the number of random runs below the default, because each writes to a disk.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kittest.Main(m)
}
