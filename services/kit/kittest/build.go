package kittest

import (
	"fmt"
	"os"
	"os/exec"
)

// Build builds programs into the directory dir, each under the last element of its import path.
//
// The go command does not know that these programs are inputs of the test, and would use a cached
// result after they have changed. Therefore the package that calls Build must import the package
// behind each program's main function. A test of portolan/internal/walls checks that.
//
// cgo is off, as in the programs that ship. A test under the race detector has it on, and would
// compile the packages below net a third time.
func Build(dir string, programs ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", dir + "/"}, programs...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return build(cmd)
}

// BuildAlone builds programs of a module outside the workspace. They are third-party tools in
// pinned versions, so our changes do not affect them. Flags of the build come before the programs. cgo is off, as in Build.
func BuildAlone(module, dir string, flagsAndPrograms ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-C", module, "-o", dir + "/"}, flagsAndPrograms...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	return build(cmd)
}

// BuildTree builds programs of another tree, which has its own workspace. Changes in this tree do
// not affect them.
func BuildTree(tree, dir string, programs ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-C", tree, "-o", dir + "/"}, programs...)...)
	cmd.Env = append(os.Environ(), "GOWORK=", "CGO_ENABLED=0") // an empty GOWORK: the go.work of that tree
	return build(cmd)
}

func build(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
