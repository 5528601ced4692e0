// Package explain follows a service from the object that its owner wrote to the traffic that each
// node forwards, and reports where the chain breaks.
//
// It asks the daemon that decides each link, so that the answer is the actual state: the endpoint
// controller for pods and slices, the allocator for addresses, the name server for names, and each
// node agent for virtual servers. A daemon that does not answer is a finding, not a failure, and
// the other links are still reported. The verdict claims only what the daemons know: explain makes
// no connection to a backend. Deriving everything from the registry's objects would be simpler but
// would duplicate the rules of four daemons.
package explain
