package programtest

import (
	"fmt"
	"os"

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

// Build builds the named programs into a new temporary folder, which the caller removes.
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
	if err := kittest.Build(dir, build...); err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}
