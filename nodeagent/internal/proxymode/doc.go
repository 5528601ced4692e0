// Package proxymode chooses the proxy mode of a node and opens its data plane.
//
// If the kernel does not support the configured mode, the next of ipvs, nftables and userspace is
// used. A change of the mode between two runs of the agent keeps forwarding: the plane of the new
// mode takes over the state in force before any state of the old mode is removed.
//
// The invariant: the state of an agent in another mode of the kernel is removed only after the new
// mode has taken it over, or if the plane is the userspace one. A mode may have state if its
// journal exists, or if the kernel has servers with the mode's mark, because a journal can be lost.
// State that cannot be removed is reported, because it captures packets of the new plane.
//
// The choice is made once, when the agent starts. The alternative, to change the mode of a running
// agent, would need planes that hand over to each other while changes arrive. A restart is the same
// for clients, because the kernel forwards meanwhile.
package proxymode
