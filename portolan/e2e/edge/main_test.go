package edge

import (
	"testing"

	"portolan.dev/edge"
	"portolan.dev/lbctl"
	"portolan.dev/portolan/e2e/labtest"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Program{Name: "lbctl", Main: lbctl.Main}, labtest.Program{Name: "edge", Main: edge.Main})
}
