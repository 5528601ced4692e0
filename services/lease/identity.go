package lease

import (
	"crypto/rand"
	"fmt"
	"os"
)

// NewIdentity returns an identity for a replica that has none configured: the name of the host with a
// random part, because several replicas may run on a host.
func NewIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("host name: %w", err)
	}
	return host + "-" + rand.Text()[:8], nil
}
