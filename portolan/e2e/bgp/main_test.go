package bgp

import (
	"testing"

	"portolan.dev/portolan/e2e/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m) }
