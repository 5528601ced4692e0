package kittest

import (
	"fmt"
	"os"
	"os/exec"
)

// Build builds programs into the folder dir, each under the last element of its import path.
//
// go test does not see that these programs are inputs of the test: after a change it would serve the old result from its
// cache. Therefore the package that calls Build imports the package behind each program's main function. A test of
// portolan/internal/walls demands it.
func Build(dir string, programs ...string) error {
	return build(exec.Command("go", append([]string{"build", "-o", dir + "/"}, programs...)...))
}

// BuildAlone builds programs of a module outside the workspace. They are tools of others whose versions are pinned, so no
// change of ours can alter them.
func BuildAlone(module, dir string, programs ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-C", module, "-o", dir + "/"}, programs...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return build(cmd)
}

// BuildTree builds programs of another tree, which has its own workspace. No change of ours can alter them.
func BuildTree(tree, dir string, programs ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-C", tree, "-o", dir + "/"}, programs...)...)
	cmd.Env = append(os.Environ(), "GOWORK=") // as go.work of that tree says
	return build(cmd)
}

func build(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
