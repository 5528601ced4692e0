package loopbacktest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Network is a /16 of the loopback range that no other test uses at the same time.
type Network struct{ octet int }

// Claim returns a free network. It claims the network by a listener on a port that has no other use:
// another test that tries the same network fails to listen.
func Claim(t testing.TB) Network {
	t.Helper()
	for range 200 {
		n := Network{octet: 130 + rand.IntN(120)}
		claim, err := net.Listen("tcp", n.Addr("255.254", 17400))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return n
	}
	t.Fatal("no loopback network is free")
	return Network{}
}

// IP returns the address, or the range, with host as its last two bytes, such as 0.1 or 64.0/18.
func (n Network) IP(host string) string { return fmt.Sprintf("127.%d.%s", n.octet, host) }

// Addr returns the address with a port.
func (n Network) Addr(host string, port int) string { return fmt.Sprintf("%s:%d", n.IP(host), port) }

// Bind returns the address of the daemons.
func (n Network) Bind() string { return n.IP("0.1") }

// Services returns the range of virtual IPs.
func (n Network) Services() string { return n.IP("64.0/18") }

// Pods returns the range of the addresses of pods.
func (n Network) Pods() string { return n.IP("128.0/18") }

// Balancers returns the range of the addresses of load balancers.
func (n Network) Balancers() string { return n.IP("240.0/24") }

// DNS returns the address of the name server.
func (n Network) DNS() string { return n.Addr("0.1", 7053) }
