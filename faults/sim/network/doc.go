// Package network carries the gRPC calls of simulated daemons. A daemon dials as it always does;
// interceptors of the connection then answer each call from a server in the same process, without a
// transport, when the weather lets the question and the answer through. A lost answer leaves its
// caller not knowing whether the call was carried out. A late question is carried out after its
// caller has given up, has been told that the registry is not reached, or has died.
package network
