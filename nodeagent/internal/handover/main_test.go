package handover

import (
	"testing"

	"portolan.dev/nodeagent/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m, "nft") }
