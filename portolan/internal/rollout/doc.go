// Package rollout says on which nodes a service is programmed, and what keeps the others.
//
// It stands on heartbeats, which the registry has of all nodes: one question tells of thousands, and agents need not be reachable from where
// the command line runs. A heartbeat says up to which revision everything was tried and which services failed; where its list of these is too
// long, the agent is asked. Asking every agent instead would be a connection per node and look, and could not tell of those behind a firewall.
//
// The invariant: a node counts only while it is heard of, at a revision that covers the service and its slices, with neither the service nor
// the node as a whole failing.
package rollout
