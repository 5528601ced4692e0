package containers

import (
	"testing"

	"portolan.dev/portolan/e2e/labtest"
)

// manual is the document under test.
const manual = "../../testdata/repository/docs/containers.md"

func TestMain(m *testing.M) { labtest.Main(m) }
