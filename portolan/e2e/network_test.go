package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// network is a /16 of the loopback range that no other test uses at the same time.
type network struct{ octet int }

// claimNetwork returns a free network. It claims the network by a listener on a port that has no
// other use: another test that tries the same network fails to listen.
func claimNetwork(t *testing.T) network {
	t.Helper()
	for range 200 {
		n := network{octet: 130 + rand.IntN(120)}
		claim, err := net.Listen("tcp", n.addr("255.254", 17400))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return n
	}
	t.Fatal("no loopback network is free")
	return network{}
}

func (n network) ip(host string) string { return fmt.Sprintf("127.%d.%s", n.octet, host) }

func (n network) addr(host string, port int) string { return fmt.Sprintf("%s:%d", n.ip(host), port) }

// Addresses and ranges of a network.
func (n network) bind() string      { return n.ip("0.1") }
func (n network) services() string  { return n.ip("64.0/18") }
func (n network) pods() string      { return n.ip("128.0/18") }
func (n network) balancers() string { return n.ip("240.0/24") }
func (n network) dns() string       { return n.addr("0.1", 7053) }
