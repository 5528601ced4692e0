package docker

import (
	"fmt"
	"os"
	"testing"

	"portolan.dev/portolan/internal/programtest"
)

// bin is the folder of the programs under test, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := programtest.Build("registrar", "portolan")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	return m.Run()
}
