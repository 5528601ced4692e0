package dataplane

import (
	"context"
	"errors"
	"net/netip"

	"portolan.dev/nodeagent/plan"
)

// ErrNotSupported is in the error of a step that the plane can never carry out:
// trying again does not help.
var ErrNotSupported = errors.New("not supported by this data plane")

// Plane forwards traffic.
//
// What it must keep, in all planes:
//
//   - Steps are carried out in the order given. A step that fails does not keep
//     the others from being tried, and leaves what it is about as it was, or not
//     programmed at all: Programmed tells which.
//   - AddServer of a server that is there replaces it in place. UpdateServer,
//     AddReal and UpdateReal never break a connection. Steps are idempotent.
//   - DeleteReal and DeleteServer take new connections away at once. TCP
//     connections that are established go on, at most for the server's Drain; a
//     backend that comes back in this time, or that the frontend still has for
//     another audience, keeps them. UDP moves at once.
//   - A server without usable backends refuses: a TCP client gets a reset or
//     ECONNREFUSED, a UDP client ECONNREFUSED, both at once. With verdict Drop
//     a plane that cannot be silent refuses too.
//   - A server for one audience wins over one for anyone at the same frontend.
//   - Affinity: a client address comes back to its backend until Affinity after
//     its last connection, as long as the backend is there.
//   - Nothing that the plane did not set up is ever touched.
type Plane interface {
	// Name is how the plane is called in status and configuration.
	Name() string
	// Apply carries out steps and returns those that failed. It is called by
	// one goroutine at a time. When ctx ends the rest of the steps fails.
	Apply(ctx context.Context, steps []plan.Step) []Failure
	// Programmed returns what is in force at key; nil: nothing.
	Programmed(key plan.Key) *plan.VirtualServer
	// State reads back everything that is in force, from as close to the
	// traffic as the plane can.
	State(ctx context.Context) (*plan.State, error)
	// Connections returns the connections that each backend of some servers has,
	// backends that drain included. Servers are asked for together because some
	// planes must read all flows of the kernel to answer.
	Connections(keys ...plan.Key) map[plan.Key]map[netip.AddrPort]uint32
	// Close frees what the process holds. A plane in the kernel leaves its
	// traffic alone; a plane in this process ends it.
	Close() error
}

// NodeError is the error of a step that failed for a reason of the node, which
// has nothing to do with the step's service, such as a full disk. The agent
// reports it once, on the Node, however many services it concerns.
type NodeError struct {
	Err error
	// Remedy says what a person can do about it.
	Remedy string
}

// Error implements error.
func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NodeError) Unwrap() error { return e.Err }

// Failure is a step that could not be carried out.
type Failure struct {
	Step plan.Step
	Err  error
	// Remedy says what a person can do about it; may be empty.
	Remedy string
}
