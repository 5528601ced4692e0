// Package nodeagent is the daemon of a node: it forwards the virtual IPs of all services to their
// backends, probes the backends on its node, and answers the health checks of load balancers.
//
// It has three strict layers: view (the known objects) → plan (the desired forwarding, computed by
// pure functions) → dataplane (the actual forwarding). internal/syncloop is the sync loop that joins
// them, internal/proxymode chooses the data plane, and internal/nodestatus reports the state of the
// node. This package has the configuration, the API, and the wiring: it builds the parts, runs
// them, and passes facts from one to another, such as the node's addresses.
//
// The invariant: no part needs this package, and no part holds another one. A part declares the
// interfaces and functions that it needs, and this package supplies them. Parts share only
// constants and contracts: the reasons of Events, and kernelmode.Mode. The alternative, one
// package of parts that share a Daemon, would let each part use all others, and hide the
// dependencies between them.
//
// The agent keeps only its own pods and its own node, and the follower already drops the others: in
// a cluster of a thousand nodes they are most of all objects.
//
// machine.Machine is the interface below the agent: addresses, neighbours, listening programs and the
// planes of the kernel. Below a plane, kernel.Host is another one. Simulations have both in memory.
//
// A data plane in the kernel continues without the agent. The userspace plane stops forwarding when
// the agent stops. Its node still stays Ready until its heartbeats are missed, because usually the
// agent restarts.
package nodeagent
