// Command endpointctl measures the endpoint controller as it runs in production: with a registry on a
// Postgres that waits for its disk, the allocator, and NATS, each in a process of its own. `make
// bench-endpointctl` runs it. Its last lines have the form `ratio <name> <value> (<target>)`.
//
// It measures a cold start, the way of one pod's readiness into the slice and to a follower, and the
// messages to a node agent while a large service restarts. Their number and size are compared with the
// figures of KEP-752, the design of Kubernetes' EndpointSlices, computed for the same service.
//
// The invariant is that the numbers of a ratio were measured in turns in the same run. The machine
// may have other load, which is printed.
package main
