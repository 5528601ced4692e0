package announce

import (
	"testing"

	"portolan.dev/lbctl"
	"portolan.dev/portolan/e2e/labtest"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Program{Name: "lbctl", Main: lbctl.Main}, labtest.Program{Name: standInProgram, Main: standIn})
}
