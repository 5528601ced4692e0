package machine

import (
	"context"
	"io"
	"net/netip"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
)

// Machine is the machine that an agent runs on, without disk and network connections.
type Machine interface {
	// Addresses returns the unicast addresses of the machine, IPv4 first.
	Addresses() ([]netip.Addr, error)
	// WatchAddresses calls changed whenever an address is added or removed, until ctx is done. If
	// it returns an error, changes are noticed late.
	WatchAddresses(ctx context.Context, changed func()) error
	// Interfaces returns the network interfaces that are up and on which neighbours ask for addresses.
	Interfaces() ([]Interface, error)
	// Neighbors opens an interface for answering the neighbours of IPv6 or of IPv4. If the machine
	// cannot, the error is errors.ErrUnsupported.
	Neighbors(i Interface, v6 bool) (Neighbors, error)
	// HandOvers opens the hand-overs of addresses that have moved to this node. If the machine cannot
	// send packets to another node, the error is errors.ErrUnsupported.
	HandOvers() (HandOvers, error)
	// LocalRoutes opens the routes to addresses that a proxy on the machine serves. If the machine has
	// none, the error is errors.ErrUnsupported.
	LocalRoutes() (LocalRoutes, error)
	// Listeners returns the addresses that programs of the machine listen on.
	Listeners() []plan.Frontend
	// OpenSpeaker opens sessions of BGP. If the machine cannot, the error is errors.ErrUnsupported.
	OpenSpeaker(SpeakerOptions) (Speaker, error)
	// Claim marks that an agent runs on the machine, until the result is closed. It is nil if another agent runs, with
	// which this one shares the kernel.
	Claim() io.Closer
	// Locals opens the part of the machine's routing table in which the userspace plane makes virtual addresses
	// local. If the machine has none, the error is errors.ErrUnsupported.
	Locals(kernelmode.Options) (Locals, error)
	// Modes returns the proxy modes in which the kernel may forward, in the order in which they are
	// tried.
	Modes() []kernelmode.Mode
}
