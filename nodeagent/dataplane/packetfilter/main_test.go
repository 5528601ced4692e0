package packetfilter_test

import (
	"testing"

	"portolan.dev/nodeagent/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.MainOrNative(m, kerneltest.ProbePacketFilter) }
