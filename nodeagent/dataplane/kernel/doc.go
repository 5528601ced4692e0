// Package kernel is what data planes in the Linux kernel share: the packet
// filter around the load balancer, routes of virtual addresses, settings of the
// kernel, connection tracking, and the journal of what is ours.
//
// The one invariant: nothing is touched that is not in our own table, does not
// carry our route protocol, or is not in the journal.
//
// The alternative, an ipset and an iptables rule per case and an address per
// virtual server on a dummy device, costs an exec per change and a scan that
// grows with the number of services.
package kernel
