package dataplane

import (
	"context"
	"errors"
	"net/netip"

	"portolan.dev/nodeagent/plan"
)

// ErrNotSupported is wrapped by the error of a step that the plane can never carry out. There is no
// point in a retry.
var ErrNotSupported = errors.New("not supported by this data plane")

// Plane forwards traffic. All planes follow these rules:
//
//   - Steps are carried out in the given order. If a step fails, the others are still tried. The
//     server of the failed step stays as it was, or is not programmed at all: Programmed reports
//     which.
//   - AddServer replaces an existing server in place. UpdateServer, AddReal and UpdateReal never
//     break a connection. Steps are idempotent.
//   - DeleteReal and DeleteServer stop new connections at once. Established TCP connections
//     continue for at most the server's Drain. A backend keeps them if it comes back in this time,
//     or if the frontend still has it for another audience. UDP flows move at once.
//   - A server without usable backends refuses traffic at once: a TCP client gets a reset or
//     ECONNREFUSED, a UDP client ECONNREFUSED. With verdict Drop, a plane that cannot drop packets
//     silently refuses too.
//   - At one frontend, a server for one audience takes precedence over the server for Anyone.
//   - With affinity, a client address keeps its backend until Affinity after its last connection,
//     as long as the backend exists.
//   - A plane never changes anything in the system that it did not set up itself.
type Plane interface {
	// Name returns the plane's name in status and configuration.
	Name() string
	// Apply carries out steps and returns those that failed. Only one goroutine at a time calls it.
	// When ctx ends, the remaining steps fail.
	Apply(ctx context.Context, steps []plan.Step) []Failure
	// Reach announces that the next steps lead to the plan of a revision. A plane that outlives
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

// NodeError is the error of a step that failed for a reason that lies in the node and not in the
// step's service, such as a full disk. The agent reports it once, on the Node, for any number of
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

// Failure is a step that could not be carried out, with its error.
type Failure struct {
	Step plan.Step
	Err  error
	// Remedy is the advice for operators; may be empty.
	Remedy string
}
