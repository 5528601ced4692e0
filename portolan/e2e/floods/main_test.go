package floods

import (
	"testing"

	"portolan.dev/portolan/e2e/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }

// install returns an installation with certificates and two nodes, n1 and n2, that do not need
// anything of the kernel.
func install(t *testing.T) *labtest.Installation {
	t.Helper()
	return labtest.Install(t, labtest.Options{
		Secured: true,
		Nodes:   []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
	})
}
