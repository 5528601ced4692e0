// Package dev runs a whole installation in one process: every daemon as it is, an embedded store, an embedded NATS server and the userspace
// data plane, all on loopback, without root, leaving nothing outside its data directory.
//
// The daemons talk over their APIs and the change stream as they do on many machines; only the transport differs (pipes instead of sockets,
// see rpc.Memory). Their APIs listen on TCP too, so that every client works. Calling the daemons' Go code directly would start a little
// faster, and would be a second way through the house that only laptops use.
package dev
