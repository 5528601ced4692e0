// Package kernel is the data plane in the Linux kernel, independent of the balancer there.
//
// A Plane consists of a Balancer, which distributes connections over backends, and of everything
// around it that all balancers need: a packet filter, routes of virtual addresses, settings of the
// kernel, connection tracking, draining, and a journal of the plane's own state. So planes differ
// only in their balancers. Plane reaches the kernel through a Host, which is Linux except in
// simulations. Locals is the part of a plane that remains without a balancer: it makes addresses local
// for the userspace plane. Package packetfilter has the rules, package host the routes, settings and flows, and
// neither knows the plane.
//
// Invariants: the plane only changes state that is in its own tables, carries its route protocol or the
// balancer's mark, or is in its journal. The plane records all changes that it makes to the kernel: a mirror in
// memory is the base from which changes are computed, a journal on disk identifies the plane's
// state when the process starts again, and an audit compares both with the kernel.
//
// The alternative, an ipset and an iptables rule per case and an address per virtual server on a
// dummy device, costs an exec per change and a scan that grows with the number of services.
package kernel
