// Package daemon provides the part that all daemons share: their common settings, their gRPC
// server, and the main function that makes a process from a configuration and a constructor.
//
// A daemon consists of a Config, which embeds Common, and a function New, which returns a Daemon
// with a method Run. Its main function has one line:
//
//	func Main() int { return daemon.Main("allocator", New) }
//
// NewServer has no default for the permissions of callers. Each daemon passes them in.
//
// A daemon listens for HTTP at two addresses. HTTPAddr has metrics and health. On loopback it is
// plain; at any other address it follows the rule of gRPC: mutual TLS, so that no byte of a request is
// read from a client without a certificate of the installation, and access.Observe decides who may
// read. Health has no exception from this. Supervisors ask by the command ready, which has the
// daemon's certificate, and load balancers ask the node agent, which has an address for them
// (healthz-addr). An open health check would mean a second way to serve, without authentication,
// whose text names the daemon's failing dependencies.
//
// DebugAddr has profiles and the log level. It is a listener of its own because no certificate of
// another machine needs it, and there is none by default because every user of a machine reaches a
// port on loopback. A Unix socket belongs to the daemon's user; the units have one. Both listeners
// refuse requests whose Host header is not the server's.
//
// In a process without certificates, metrics may require the token of app.Host, as the gRPC API then
// does. Health stays open there, because only users of the same machine reach it.
//
// A daemon gets everything it needs from its environment in app.Host. A program can therefore run
// several daemons in one process, with its own flags, logs and networks.
package daemon
