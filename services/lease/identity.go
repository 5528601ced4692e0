package lease

import (
	"crypto/rand"
	"os"
)

// newIdentity returns an identity for a replica that has none configured: the name of the host with a
// random part, because several replicas may run on a host.
func newIdentity() string {
	host, _ := os.Hostname() // the random part is enough
	return host + "-" + rand.Text()[:8]
}
