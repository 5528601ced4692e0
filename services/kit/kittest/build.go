package kittest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// Build builds programs into the directory dir, each under the last element of its import path.
//
// The go command does not know that these programs are inputs of the test, and would use a cached
// result after they have changed. Therefore the package that calls Build must import the package
// behind each program's main function. A test of portolan/internal/walls checks that.
func Build(dir string, programs ...string) error {
	return build(nil, append([]string{"-o", dir + "/"}, programs...))
}

// BuildAlone builds programs of a module outside the workspace. They are third-party tools in
// pinned versions, so our changes do not affect them. Flags of the build come before the programs.
func BuildAlone(module, dir string, flagsAndPrograms ...string) error {
	return build([]string{"GOWORK=off"}, append([]string{"-C", module, "-o", dir + "/"}, flagsAndPrograms...))
}

// BuildTree builds programs of another tree, which has its own workspace. Changes in this tree do
// not affect them.
func BuildTree(tree, dir string, programs ...string) error {
	// An empty GOWORK selects the go.work of that tree.
	return build([]string{"GOWORK="}, append([]string{"-C", tree, "-o", dir + "/"}, programs...))
}

// build runs go build with the arguments, in the environment of the test and env. cgo is off, as in the
// programs that ship. A test under the race detector has it on, and would compile the packages below net
// a third time.
func build(env, args []string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Env = slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
