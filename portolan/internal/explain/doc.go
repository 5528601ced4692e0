// Package explain follows a service from what its owner wrote to what each node forwards, and says where the chain breaks.
//
// Every link is asked of the daemon that decides it, so that the answer is what is, not what ought to be: pods and slices of the endpoint
// controller, addresses of the allocator, names of the name server, virtual servers of each node agent. A daemon that does not answer is a
// finding, not a failure: the rest is still told. Working it out from the registry's objects alone would be simpler and would repeat the
// rules of four daemons, differently.
package explain
