package machine

import (
	"net/netip"

	"portolan.dev/nodeagent/dataplane/userspace"
)

// Locals makes the addresses local at which the userspace plane listens.
type Locals = userspace.Locals

// LocalRoutes make addresses local to the machine, without an address on any device, so that its
// programs can listen at them. They stay in force without the agent. It is not safe for concurrent
// use.
type LocalRoutes interface {
	// Read reads the routes from the kernel again.
	Read() error
	// All returns the routes, in no particular order.
	All() []netip.Prefix
	Add(netip.Prefix) error
	Delete(netip.Prefix) error
	// Addresses returns the addresses of the machine's devices, which need no route.
	Addresses() (map[netip.Addr]bool, error)
	// Lost returns a channel that receives a token when another program has removed routes.
	Lost() <-chan struct{}
	// Close leaves the routes in force.
	Close()
}
