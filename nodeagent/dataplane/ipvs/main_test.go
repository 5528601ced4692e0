package ipvs_test

import (
	"flag"
	"os"
	"testing"

	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/kerneltest"
)

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Exit(agentMain())
	}
	netnstest.Victim(openQuietly)
	flag.Set("rapid.checks", "20") //nolint:errcheck // the flag is rapid's; a check takes half a second
	kerneltest.Main(m, "ipvsadm", "nft")
}
