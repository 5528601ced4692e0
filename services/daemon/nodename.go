package daemon

import (
	"fmt"
	"os"

	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
)

// NodeName returns the name of the node that a daemon of a node belongs to: the configured one, or the
// host name. If there is a certificate, its name is the only valid one, because a daemon with another
// name would be denied everything.
func NodeName(configured string, source *identity.Source) (string, error) {
	if source != nil {
		id := source.ID()
		if configured != "" && configured != id.Name {
			return "", fmt.Errorf("%w: node-name is %s and the certificate is %s: leave out node-name, or make a certificate by portolan certs issue %s/%[2]s",
				config.ErrInvalid, configured, id, id.Role)
		}
		return id.Name, nil
	}
	if configured != "" {
		return configured, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the node: %w", err)
	}
	return name, nil
}
