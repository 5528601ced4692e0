package nodes

import (
	"os"
	"testing"

	"portolan.dev/nodeagent/program"
	"portolan.dev/services/daemon"
)

// agentEnv is the environment variable that makes the test binary a node agent.
const agentEnv = "PORTOLAN_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Exit(daemon.Main("nodeagent", program.New))
	}
	os.Exit(m.Run())
}
