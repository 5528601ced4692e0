package ipvs_test

import (
	"os"
	"testing"

	"portolan.dev/nodeagent/kerneltest"
)

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Exit(agentMain())
	}
	kerneltest.Main(m)
}
