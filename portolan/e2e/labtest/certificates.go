package labtest

import (
	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/changes"
)

// NATSConfig returns what portolan certs nats-config prints for the authority in a folder. The server that is
// configured so has its certificate in the folder path.
func NATSConfig(authority, path string, nodes []string) (string, error) {
	folder, err := certs.Open(authority)
	if err != nil {
		return "", err
	}
	return folder.NATSConfig(certs.NATSOptions{Prefix: changes.DefaultPrefix, Path: path, Nodes: nodes})
}
