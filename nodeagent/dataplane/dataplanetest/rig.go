package dataplanetest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Vantage is where a client is.
type Vantage string

// The vantages. Clients that are Inside or on the Node are internal.
const (
	Inside  Vantage = "inside"  // a pod
	Node    Vantage = "node"    // the node itself
	Outside Vantage = "outside" // neither
	Self    Vantage = "self"    // the n-th backend
)

// Machine is what the machine that a rig is on can do.
type Machine struct {
	// IPv6: it has IPv6.
	IPv6 bool
	// Sources6: clients have an IPv6 address each. Otherwise all have the same.
	Sources6 bool
	// SCTP: it has SCTP sockets.
	SCTP bool
}

// Rig is a plane with clients and backends around it. Ranges and addresses are
// the rig's choice. A backend and a frontend have an address, or a port, that no
// other one had before.
type Rig interface {
	// Plane is under test. It forwards nothing at the start of each scenario, and
	// may be the same one each time.
	Plane() dataplane.Plane
	// Restart ends the plane's process, as for an upgrade, and starts another.
	Restart(t testing.TB)
	// Cleanup takes away all that the plane has left, as when it is removed from
	// the machine, and starts another. It returns an error if anything but the
	// plane's own is gone or changed, or anything of its own is left.
	Cleanup(t testing.TB) error
	// Damage takes away, behind the plane's back, all that it has set up where
	// somebody else can reach it.
	Damage(t testing.TB)
	// Occupy gives a frontend to somebody else, as far as there is such a thing
	// for the plane. intact tells whether it is still as it was.
	Occupy(t testing.TB, at plan.Frontend) (intact func() error)

	Traits() Traits
	Machine() Machine
	// Sources are those that make the vantages what they are.
	Sources() plan.Sources
	// ClientAddr is the address of the n-th client at a vantage other than Self.
	ClientAddr(from Vantage, n int, v6 bool) netip.Addr
	// NodeAddrs are two or more addresses of the node.
	NodeAddrs(v6 bool) []netip.Addr
	// Frontend returns an address and port for an exposure. Those that are not
	// node ports have the same port; node ports are at the first of NodeAddrs.
	Frontend(t testing.TB, e plan.Exposure, p plan.Protocol, v6 bool) netip.AddrPort
	// Listen opens a socket for a backend: that of ListenTCP for TCP, a PacketConn
	// for UDP.
	Listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn)
	// ListenNode opens a TCP socket of the node on all its addresses.
	ListenNode(t testing.TB, v6 bool) net.Listener
	// Dial connects from a vantage. A source with port 0 leaves the port to the
	// rig, and the one of Node the address too. When ctx ends, so does the try.
	Dial(ctx context.Context, from Vantage, source netip.AddrPort, p plan.Protocol, to netip.AddrPort) (net.Conn, error)
}

// Run plays all scenarios, each on a rig made by newRig. What the machine cannot
// do is skipped; what the plane does otherwise is not.
func Run(t *testing.T, newRig func(t *testing.T) Rig) {
	for _, s := range scenarios() {
		for _, v := range s.variants() {
			t.Run(s.Name+"/"+v.String(), func(t *testing.T) {
				rig := newRig(t)
				if why := v.lacks(rig, s); why != "" {
					t.Skip("allowed: " + why)
				}
				newWorld(t, rig, s, v).play()
			})
		}
	}
}
