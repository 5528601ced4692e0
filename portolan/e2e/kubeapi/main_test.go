package kubeapi

import (
	"fmt"
	"os"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// programs is the folder of the programs that tests build.
var programs string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "programs")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs = dir
	return kittest.RunTests(m)
}
