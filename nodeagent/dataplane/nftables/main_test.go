package nftables_test

import (
	"flag"
	"testing"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/nftables"
	"portolan.dev/nodeagent/kerneltest"
)

// TestMain runs the tests in namespaces of the machine's own kernel if that kernel supports
// everything they need.
func TestMain(m *testing.M) {
	netnstest.Victim(openQuietly)
	flag.Set("rapid.checks", "20") //nolint:errcheck // the flag is rapid's; a check takes a quarter of a second
	kerneltest.MainOrNative(m, func() error { return nftables.Probe("") })
}
