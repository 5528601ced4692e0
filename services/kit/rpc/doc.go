// Package rpc is gRPC as Portolan speaks it: one way to build a server, one way
// to dial, and the network between them.
//
// Every server recovers panics, maps errors (package apierr), refuses text that
// is not UTF-8, bounds calls and messages, measures, answers health checks and
// reflection, and stops within a bound. With an identity it speaks mutual TLS and
// asks package access who may make a call before it looks at the request. The invariant: nothing a handler does or
// a peer sends ends the process, and no call outlives the server.
//
// The network is an interface because several daemons may live in one process:
// Memory carries their calls through pipes while clients from outside still
// reach the same servers over TCP. Handlers and clients cannot tell.
package rpc
