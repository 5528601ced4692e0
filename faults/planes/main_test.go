package planes

import (
	"testing"

	"portolan.dev/faults/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }
