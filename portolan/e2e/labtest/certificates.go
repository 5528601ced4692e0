package labtest

import (
	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/changes"
)

// NATSConfig returns the output of portolan certs nats-config for the authority in a folder. path
// is the folder of the server's certificate.
func NATSConfig(authority, path string, nodes []string) (string, error) {
	folder, err := certs.Open(authority)
	if err != nil {
		return "", err
	}
	return folder.NATSConfig(certs.NATSOptions{Prefix: changes.DefaultPrefix, Path: path, Nodes: nodes})
}
