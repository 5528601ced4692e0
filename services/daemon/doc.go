// Package daemon provides the shared parts of all daemons: their common settings, their gRPC server,
// and the main function that makes a process from a configuration and a constructor.
//
// A daemon consists of a Config, which embeds Common, and a function New, which returns a Daemon
// with a method Run. Its main function has one line:
//
//	func Main() int { return daemon.Main("allocator", New) }
//
// NewServer has no default for the permissions of callers. Each daemon passes them in.
//
// A daemon listens for HTTP at two addresses. HTTPAddr serves metrics and health. On loopback it serves
// them without TLS. At any other address it requires mutual TLS, as gRPC does: it reads no byte of a request
// from a client without a certificate of the installation, and access.Observe decides about the client's
// role. This is also true for health. Supervisors use the command ready, which has the daemon's certificate,
// and load balancers ask the node agent, which has an address for them (healthz-addr). An open health check
// would show the daemon's failing dependencies to clients without authentication.
//
// DebugAddr serves profiles and the log level. It is a separate listener because no other machine needs it.
// By default it is off, because every user of a machine can connect to a port on loopback. The units use a
// Unix socket, which belongs to the daemon's user. Both listeners refuse requests if the Host header does not
// name the server.
//
// In a process without certificates, metrics may require the token of app.Host, as the gRPC API then
// does. Health stays open there, because only users of the same machine reach it.
//
// app.Host has all that a daemon needs from its process. So a program can run several daemons in one
// process, with its own flags, logs and networks.
package daemon
