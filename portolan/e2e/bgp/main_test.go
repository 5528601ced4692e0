package bgp

import (
	"testing"

	"portolan.dev/edge"
	"portolan.dev/portolan/e2e/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, labtest.Program{Name: "edge", Main: edge.Main}) }
