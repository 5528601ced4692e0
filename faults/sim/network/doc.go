// Package network carries the gRPC calls of simulated daemons. A daemon dials as usual.
// Interceptors of the connection pass each call to a server in the same process, without a
// transport. Package netem decides whether and when the request and the reply arrive. After a lost
// reply the caller does not know whether the call was executed. A delayed request is executed even
// if its caller has timed out, has got an error, or has died.
package network
