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
// A daemon gets everything it needs from its environment in app.Host. A program can therefore run
// several daemons in one process, with its own flags, logs and networks.
package daemon
