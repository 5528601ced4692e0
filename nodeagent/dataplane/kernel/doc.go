// Package kernel is the data plane in the Linux kernel, whatever balances there.
//
// A Plane is made of a Balancer, which spreads connections over backends, and of
// what any of them needs around it: a packet filter, routes of virtual
// addresses, settings of the kernel, connection tracking, draining, and the
// journal of what is ours. So planes differ only where balancers do. All of that
// is reached by a Host, which is Linux but for simulations.
//
// Invariants: nothing is touched that is not in our own tables, does not carry
// our route protocol, or is not in the journal. What is done to the kernel is
// known here: a mirror in memory says what every change costs, a journal on disk
// says what is ours when the process starts again, and an audit compares both
// with the kernel.
//
// The alternative, an ipset and an iptables rule per case and an address per
// virtual server on a dummy device, costs an exec per change and a scan that
// grows with the number of services.
package kernel
