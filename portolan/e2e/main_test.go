package e2e

import (
	"fmt"
	"os"
	"testing"

	"portolan.dev/portolan/internal/programtest"
)

// daemons are the daemons that are also separate programs.
var daemons = []string{"registry", "allocator", "endpointctl", "lbctl", "dnssvc", "nodeagent", "edge", "kubeapi"}

// repository is a link to the root of the repository, through which the go command notices changes
// of the files that tests read there.
const repository = "../testdata/repository"

// bin is the folder of the programs under test, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := programtest.Build(append([]string{"portolan"}, daemons...)...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	return m.Run()
}
