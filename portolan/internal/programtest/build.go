package programtest

import (
	"fmt"
	"os"
	"path/filepath"

	// The packages behind the main functions of the programs.
	_ "portolan.dev/allocator/program"
	_ "portolan.dev/dnssvc"
	_ "portolan.dev/edge"
	_ "portolan.dev/endpointctl"
	_ "portolan.dev/kubeapi"
	_ "portolan.dev/lbctl"
	_ "portolan.dev/nodeagent/program"
	_ "portolan.dev/portolan/internal/cli"
	_ "portolan.dev/registrar"
	_ "portolan.dev/registry/program"

	"portolan.dev/services/kit/kittest"
)

// packages are the programs by name.
var packages = map[string]string{
	"portolan":    "portolan.dev/portolan/cmd/portolan",
	"registry":    "portolan.dev/registry/cmd/registry",
	"allocator":   "portolan.dev/allocator/cmd/allocator",
	"endpointctl": "portolan.dev/endpointctl/cmd/endpointctl",
	"lbctl":       "portolan.dev/lbctl/cmd/lbctl",
	"dnssvc":      "portolan.dev/dnssvc/cmd/dnssvc",
	"edge":        "portolan.dev/edge/cmd/edge",
	"nodeagent":   "portolan.dev/nodeagent/cmd/nodeagent",
	"kubeapi":     "portolan.dev/kubeapi/cmd/kubeapi",
	"registrar":   "portolan.dev/registrar/cmd/registrar",
}

// builtEnv names a folder with all programs, built from this source. make sets it, because it has
// built them before the tests, and linking them again for each package takes a minute.
const builtEnv = "PORTOLAN_PROGRAMS"

// Build provides the named programs in a new temporary folder, which the caller removes.
//
//	func TestMain(m *testing.M) { os.Exit(run(m)) }
//
//	func run(m *testing.M) int {
//		dir, err := programtest.Build("registry", "allocator")
//		if err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			return 1
//		}
//		defer func() { _ = os.RemoveAll(dir) }()
//		return m.Run()
//	}
func Build(names ...string) (dir string, err error) {
	var build []string
	for _, name := range names {
		pkg, known := packages[name]
		if !known {
			return "", fmt.Errorf("there is no program %q", name)
		}
		build = append(build, pkg)
	}
	dir, err = os.MkdirTemp("", "portolan-programs-")
	if err != nil {
		return "", err
	}
	if built := os.Getenv(builtEnv); built != "" {
		err = link(built, dir, names)
	} else {
		err = kittest.Build(dir, build...)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// link makes links to programs in the folder built.
func link(built, dir string, names []string) error {
	for _, name := range names {
		program := filepath.Join(built, name)
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s: %w: run make build", builtEnv, err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
