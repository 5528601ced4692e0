package renewal

import (
	"testing"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/portolan/internal/cli"
)

func TestMain(m *testing.M) {
	labtest.Main(m, labtest.Program{Name: "portolan", Main: cli.Program})
}
