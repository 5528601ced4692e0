package nftables_test

import (
	"testing"

	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
)

// What the machine's own kernel can do is tested there, in namespaces.
func TestMain(m *testing.M) { kerneltest.MainOrNative(m, func() error { return nftables.Probe("") }) }
