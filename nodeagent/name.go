package nodeagent

import (
	"fmt"
	"os"

	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
)

// nodeName returns the name of the agent's node. If there is a certificate, its name is the only
// valid one.
func nodeName(cfg *Config, source *identity.Source) (string, error) {
	if source != nil {
		certified := source.ID().Name
		if cfg.NodeName != "" && cfg.NodeName != certified {
			return "", fmt.Errorf("%w: node-name is %s and the certificate is %s: leave out node-name, or make a certificate by portolan certs issue nodeagent/%s",
				config.ErrInvalid, cfg.NodeName, source.ID(), cfg.NodeName)
		}
		return certified, nil
	}
	if cfg.NodeName != "" {
		return cfg.NodeName, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the node: %w", err)
	}
	return name, nil
}
