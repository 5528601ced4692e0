// Package rpc configures gRPC for Portolan. It has one way to build a server, one way to dial, and
// the network between them.
//
// Every server recovers panics, maps errors (package apierr), refuses text that is not UTF-8,
// limits the duration of calls, the size of messages and the number of streams, ends streams that
// their client does not read, records metrics, serves health checks and reflection, and stops
// within a limited time. With an identity it requires mutual TLS. It asks its Authorizer for the
// caller's permission when the headers of a call have arrived, before it reads the message, and
// ends calls and streams when the caller's certificate expires or is revoked. Every connection then
// has a maximum age. Without an identity it may require a token instead (package token). The
// invariant: no handler and no peer can end the process, and no call outlives the server.
//
// The rules for calls are not in this package. A daemon passes them to its server as the
// Authorizer, so that they can depend on the contract and on the objects of Portolan, which this
// package does not know.
//
// The network is an interface because several daemons may run in one process. Memory connects them
// by pipes, while external clients reach the same servers over TCP. Handlers and clients do not see
// the difference.
package rpc
