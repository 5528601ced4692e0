package replicas

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// bin is the folder of the programs under test, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "portolan-replicas-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.Command("go", "build", "-o", dir+"/", "portolan.dev/registry/cmd/registry", "portolan.dev/allocator/cmd/allocator")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	bin = dir
	return kittest.RunTests(m)
}
