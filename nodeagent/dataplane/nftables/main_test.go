package nftables_test

import (
	"flag"
	"testing"

	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
)

// What the machine's own kernel can do is tested there, in namespaces.
func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "20") //nolint:errcheck // the flag is rapid's; a check takes a quarter of a second
	kerneltest.MainOrNative(m, func() error { return nftables.Probe("") })
}
