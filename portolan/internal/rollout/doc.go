// Package rollout reports on which nodes a service is programmed, and why it is not on the others.
//
// It uses heartbeats, which the registry has from all nodes. One call returns thousands of them,
// and agents need not be reachable from the machine of the command line. A heartbeat contains the
// revision up to which the node has applied everything, and the services that failed. If that list
// is too long for a heartbeat, the agent is asked. To ask every agent instead would need a
// connection per node each time, and could not reach nodes behind a firewall.
//
// The invariant is that a node counts only while it is heard, at a revision that covers the service
// and its slices, and if neither the service nor the node as a whole fails.
package rollout
