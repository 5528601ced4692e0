// Package dev runs a whole installation in one process: every daemon, an embedded store, a
// NATS server in memory and the userspace data plane. It uses loopback addresses only, needs no
// root, and writes only to its data directory.
//
// The daemons talk over their APIs and the change stream as they do on separate machines. Only the
// transport differs: pipes instead of sockets, see rpc.Memory. Their APIs also listen on TCP, so
// that every client works. Calling the daemons' Go code directly would start a little faster, but
// would be a second way of operation that only laptops use.
package dev
