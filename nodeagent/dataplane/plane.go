package dataplane

import (
	"context"
	"errors"
	"net/netip"

	"portolan.dev/nodeagent/plan"
)

// ErrNotSupported is wrapped by the error of a change that the plane can never make. There is no
// point in a retry.
var ErrNotSupported = errors.New("not supported by this data plane")

// Plane forwards traffic. All planes follow these rules:
//
//   - Traffic that is served both before and after a change is served during the change: rules
//     change before servers, servers before backends, additions come before removals, and weights
//     are raised before others are lowered.
//   - A frontend that fails leaves the others alone. Its servers stay as they were, or are not
//     programmed at all: Programmed reports which.
//   - An existing server changes in place. Changes of its attributes, additional backends and
//     changes of weights never break a connection.
//   - A backend or server that is removed gets no new connections from then on. Established TCP
//     connections continue for at most the server's Drain. A backend keeps them if it comes back in
//     this time, or if the frontend still has it for another audience. UDP flows move at once.
//   - A server without usable backends refuses traffic at once: a TCP client gets a reset or
//     ECONNREFUSED, a UDP client ECONNREFUSED. With verdict Drop, a plane that cannot drop packets
//     silently refuses too.
//   - At one frontend, a server for one audience takes precedence over the server for AnyClient.
//   - With affinity, a client address keeps its backend until Affinity after its last connection,
//     as long as the backend exists. A changed Affinity applies to a client from its next connection on,
//     unless the plane is an AffinityKeeper.
//   - A plane never changes anything in the system that it did not set up itself.
type Plane interface {
	// Name returns the plane's name in status and configuration.
	Name() string
	// Apply makes the plane forward the changed frontends with exactly the wanted servers, and
	// returns at most one failure for each frontend. All other frontends stay as they are. It may be
	// called again with the same changes. Only one goroutine at a time calls it. If ctx has ended,
	// every frontend fails.
	Apply(ctx context.Context, changed plan.Changes) []Failure
	// Reach announces that the next changes lead to the plan of a revision. A plane that outlives
	// the process remembers the revision.
	Reach(revision uint64)
	// Reached returns the revision of the last call of Reach, by this process or an earlier one,
	// or 0 if there was none.
	Reached() uint64
	// Programmed returns the virtual server in force at key, or nil.
	Programmed(key plan.Key) *plan.VirtualServer
	// State reads back everything that is in force, from as close to the traffic as the plane can.
	State(ctx context.Context) (*plan.State, error)
	// Connections returns the number of connections of each backend of the given servers, including
	// backends that drain. It takes several servers because some planes have to read all flows of
	// the kernel for it.
	Connections(keys ...plan.Key) map[plan.Key]map[netip.AddrPort]uint32
	// Close releases the resources of the process. A plane in the kernel keeps forwarding. A plane
	// in this process ends all traffic.
	Close() error
}

// AffinityKeeper is implemented by planes in which a changed time of affinity may not apply to clients that are
// known already.
type AffinityKeeper interface {
	// KeepsAffinity reports whether a client keeps the time of affinity with which it became known until the
	// plane forgets it. The agent reports this on a service when its time is changed.
	KeepsAffinity() bool
}

// NodeError is the error of a frontend that failed for a reason that lies in the node and not in
// the frontend's service, such as a full disk. The agent reports it once, on the Node, for any number of
// services.
type NodeError struct {
	Err error
	// Remedy is the advice for operators.
	Remedy string
}

// Error implements error.
func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// SharedRules is the frontend of failures that concern the sources, and so all services.
var SharedRules plan.Frontend

// Failure is a frontend that is not forwarded as planned.
type Failure struct {
	Frontend plan.Frontend // or SharedRules
	Err      error
	// Remedy is the advice for operators; may be empty.
	Remedy string
}

// FailAll returns the failures of changes that all fail with the same error.
func FailAll(changed plan.Changes, err error) []Failure {
	var failures []Failure
	if changed.Sources != nil {
		failures = append(failures, Failure{Frontend: SharedRules, Err: err})
	}
	for i := range changed.Frontends {
		failures = append(failures, Failure{Frontend: changed.Frontends[i].Frontend, Err: err})
	}
	return failures
}
