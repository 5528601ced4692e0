package dataplanetest

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// ClientLocation is the place of a client.
type ClientLocation string

// The locations. Clients that are Inside or on the Node are internal.
const (
	Inside  ClientLocation = "inside"  // a pod
	Node    ClientLocation = "node"    // the node itself
	Outside ClientLocation = "outside" // neither
	Self    ClientLocation = "self"    // the n-th backend
)

// Machine holds the abilities of the rig's machine.
type Machine struct {
	// IPv6 is set if the machine has IPv6.
	IPv6 bool
	// Sources6 is set if each client and each frontend has an IPv6 address of its own. Otherwise all
	// share one.
	Sources6 bool
	// SCTP is set if the machine has SCTP sockets.
	SCTP bool
}

// Rig is a plane with clients and backends around it. The rig chooses ranges and addresses. Each
// backend and frontend has an address or a port that was not used before.
type Rig interface {
	// Plane returns the plane under test. It forwards nothing at the start of each scenario, and
	// may be the same one each time.
	Plane() dataplane.Plane
	// Restart ends the plane's process, as for an upgrade, and starts another one.
	Restart(t testing.TB)
	// Cleanup removes everything that the plane has left, as when it is removed from the machine,
	// and starts another one. It returns an error if state of the plane remains, or if any other
	// state is missing or changed.
	Cleanup(t testing.TB) error
	// Damage removes, without the plane's knowledge, all of its state that other programs can
	// reach.
	Damage(t testing.TB)
	// Alter changes, without the plane's knowledge, what the plane has set up for a frontend, so that its clients
	// are not served. It does nothing if other programs cannot reach it.
	Alter(t testing.TB, at plan.Frontend)
	// Occupy gives a frontend to another program, as far as the kind of plane allows it. intact
	// returns an error if the other program's state has changed.
	Occupy(t testing.TB, at plan.Frontend) (intact func() error)

	Traits() Traits
	Machine() Machine
	// Sources returns the sources that match the locations.
	Sources() plan.Sources
	// ClientAddr returns the address of the n-th client at a location other than Self.
	ClientAddr(from ClientLocation, n int, v6 bool) netip.Addr
	// NodeAddrs returns two or more addresses of the node.
	NodeAddrs(v6 bool) []netip.Addr
	// Frontend returns an address and port for an exposure. All frontends except node ports have
	// the same port. Node ports are at the first of NodeAddrs.
	Frontend(t testing.TB, e plan.Exposure, p plan.Protocol, v6 bool) netip.AddrPort
	// Listen opens a socket for a backend: for TCP one of ListenTCP, for UDP a PacketConn.
	Listen(t testing.TB, p plan.Protocol, v6 bool) (net.Listener, net.PacketConn)
	// ListenNode opens a TCP socket of the node on all of its addresses.
	ListenNode(t testing.TB, v6 bool) net.Listener
	// Dial connects from a location. If the source's port is 0, the rig chooses the port, and for
	// location Node also the address. The attempt ends with ctx.
	Dial(ctx context.Context, from ClientLocation, source netip.AddrPort, p plan.Protocol, to netip.AddrPort) (net.Conn, error)
}

// Inspector is a Rig that inspects the machine at the end of each scenario, before its servers are
// removed.
type Inspector interface {
	// Inspect returns an error if the state of the machine is not as it should be.
	Inspect() error
}

// Run runs all scenarios, each on a rig made by newRig. Scenarios that the machine cannot run are
// skipped. Differences between planes are not skipped.
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
