package gitops

import (
	"fmt"
	"os"
	"testing"

	"portolan.dev/portolan/internal/programtest"
)

// repository is a link to the root of the repository, through which the go command notices changes of
// the document that a test reads there.
const repository = "../../testdata/repository"

// bin is the folder of the programs that the document runs, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := programtest.Build("portolan", "registrar")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	return m.Run()
}
