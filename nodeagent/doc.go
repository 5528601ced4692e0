// Package nodeagent is the daemon of a node: it forwards the virtual IPs of all
// services to their backends, probes the backends that run on its node, and
// answers load balancers.
//
// Three layers, strictly: view (what is known) → plan (what should be forwarded,
// pure) → dataplane (what forwards). This package joins them: it follows the
// registry, plans the services that a change touches, has the data plane put in
// force what changed, and tries again what failed, with growing pauses, while
// everything else goes on. One batch is planned from one revision of the view:
// a service planned from a newer one would meet addresses of services that are
// deleted by then.
//
// The invariant: the revision in the heartbeat is never higher than what the
// data plane was asked to do; whatever its record does not have is listed beside
// it, by service. Holding the revision back at the first failure was the alternative:
// one port that is taken would then hide the state of all other services.
//
// Of pods and nodes the agent keeps its own alone, already in the follower: on a
// cluster of a thousand nodes the others' are most of all objects.
//
// Machine is the seam below the agent: addresses, listening programs and the
// planes of the kernel. Below a plane, kernel.Host is another one. Simulations
// have both in memory.
//
// A data plane in the kernel goes on without the agent. The userspace plane does
// not: when the agent stops, it stops forwarding, though its node stays Ready
// until its heartbeats are missed, because a restart is what usually follows.
package nodeagent
