// Package nodeagent is the daemon of a node: it forwards the virtual IPs of all services to their
// backends, probes the backends on its node, and answers the health checks of load balancers.
//
// It has three strict layers: view (the known objects) → plan (the desired forwarding, computed by
// pure functions) → dataplane (the actual forwarding). This package joins them. It follows the
// registry, plans the services that a change touches, puts the changes in force, and retries
// failures with growing pauses while everything else continues. A batch is planned from one
// revision of the view. If some services were planned from a newer revision, they could get
// addresses of services that are deleted by then.
//
// The invariant: the data plane was asked to carry out every change up to the revision in the
// heartbeat. The services that its record lacks are listed beside the revision. The alternative, to
// hold the revision back at the first failure, would let one port that is in use hide the state of
// all other services.
//
// The agent keeps only its own pods and its own node, and the follower already drops the others: in
// a cluster of a thousand nodes they are most of all objects.
//
// Machine is the interface below the agent: addresses, listening programs and the planes of the
// kernel. Below a plane, kernel.Host is another one. Simulations have both in memory.
//
// A data plane in the kernel continues without the agent. The userspace plane stops forwarding when
// the agent stops. Its node still stays Ready until its heartbeats are missed, because usually the
// agent restarts.
package nodeagent
