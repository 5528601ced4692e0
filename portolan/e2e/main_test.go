package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// daemons are those that are programs of their own too.
var daemons = []string{"registry", "allocator", "endpointctl", "dnssvc", "nodeagent"}

// bin is the folder of the programs under test, built once.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "portolan-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	packages := []string{"portolan.dev/portolan/cmd/portolan"}
	for _, daemon := range daemons {
		packages = append(packages, fmt.Sprintf("portolan.dev/%s/cmd/%s", daemon, daemon))
	}
	build := exec.Command("go", append([]string{"build", "-o", dir + "/"}, packages...)...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	bin = dir
	return m.Run()
}
