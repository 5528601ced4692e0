// Package network carries the gRPC calls of simulated daemons. A daemon dials as it always does; interceptors of the
// connection then answer each call from a server in the same process, without a transport, when the weather lets the
// question and the answer through. A lost answer leaves its caller not knowing whether the call was carried out.
package network
