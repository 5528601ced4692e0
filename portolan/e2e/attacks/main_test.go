package attacks

import (
	"context"
	"os"
	"testing"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/portolan/internal/cli"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Program{Name: "portolan", Main: func() int {
		return cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	}})
}

// install returns an installation with certificates and two nodes, n1 and n2, that do not need
// anything of the kernel.
func install(t *testing.T) *labtest.Installation {
	t.Helper()
	return labtest.Install(t, labtest.Options{
		Secured: true,
		Nodes:   []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
	})
}
