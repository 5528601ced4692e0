// Package offers has the capabilities of the classes of load balancers, as the running lbctl reports them in a Lease.
//
// The invariant is that an unknown capability refuses no service. A report counts from a change of its Lease that
// this process has seen, for the duration of the Lease, by this process's clock. So nothing is known about a class
// after a start until lbctl renews its report, while no lbctl runs, and while an lbctl runs that is older than these
// reports. The times in the Lease are not used, because the clocks of machines need not agree.
//
// The alternative is a call of lbctl in each write of a load balancer. The registry would need the address and a
// certificate for a daemon that depends on the registry, and each of these writes would wait for lbctl and, behind it,
// for the programs of other people.
package offers
