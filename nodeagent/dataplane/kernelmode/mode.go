package kernelmode

import (
	"log/slog"
	"net/netip"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// The names of the modes.
const (
	IPVS     = "ipvs"
	NFTables = "nftables"
)

// Mode is a mode in which the kernel forwards, even without the agent.
type Mode struct {
	Name string
	// Open opens the plane.
	Open func(Options) (Plane, error)
	// HasState reports whether the kernel has servers that an agent has left in this mode, as far as they can
	// be recognised. It changes nothing.
	HasState func(Options) (bool, error)
	// OpenPredecessor reads the state that an agent has left in this mode.
	OpenPredecessor func(Options) (Predecessor, error)
}

// Options are the settings of a plane.
type Options struct {
	Log *slog.Logger // nil: discard
	// Namespace is the path of a network namespace. Empty: the namespace of the process.
	Namespace string
	// Journal is the path of the file that identifies the plane's state when the agent starts
	// again. If the file is lost, the state is recognised by its marks. If the path is empty, existing servers
	// in the kernel count as another program's.
	Journal string
	// Shared is set if another agent runs in the namespace. State that the journal lacks may then be that agent's,
	// so it is left alone.
	Shared bool
	// ServiceCIDRs are the ranges of virtual addresses. An address outside of them gets a route of
	// its own.
	ServiceCIDRs []netip.Prefix
	// Timeouts apply to balancers with connections of their own.
	Timeouts Timeouts
	// Count enables counting the traffic of servers if the kernel does not do so anyway.
	Count bool
	// Tracking configures connection tracking.
	Tracking Tracking
	// StrictARP makes the node not answer ARP requests for virtual addresses on its networks.
	StrictARP bool
	// OriginalSettings holds the values of settings, by name, from before the plane that this one
	// replaces.
	OriginalSettings map[string]string
	// InitialState is the state of the plane that this one replaces. It is in force when Open
	// returns.
	InitialState *plan.State
}

// Plane is a plane in the kernel.
type Plane interface {
	dataplane.Plane
	// Cleanup removes all state of the plane from the kernel.
	Cleanup() error
}

// Predecessor is a plane of another mode that still forwards although its process has ended.
type Predecessor interface {
	// State returns the predecessor's state without draining backends.
	State() *plan.State
	// OriginalSettings returns the values that settings had before the predecessor, by name.
	OriginalSettings() map[string]string
	// Remove removes the predecessor's balancer state from the kernel, and its journal.
	Remove() error
	// Close closes all open resources.
	Close() error
}
