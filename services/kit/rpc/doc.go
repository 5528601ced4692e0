// Package rpc configures gRPC for Portolan. It has one way to build a server, one way to dial, and
// the network between them.
//
// Every server recovers panics, maps errors (package apierr), refuses text that is not UTF-8,
// limits the duration of calls and the size of messages, records metrics, serves health checks and
// reflection, and stops within a limited time. With an identity it requires mutual TLS, and checks
// the caller's permission with package access before it reads the request. The invariant: no
// handler and no peer can end the process, and no call outlives the server.
//
// The network is an interface because several daemons may run in one process. Memory connects them
// by pipes, while external clients reach the same servers over TCP. Handlers and clients do not see
// the difference.
package rpc
