// Package daemon provides the part that all daemons share: their common settings, and the main
// function that makes a process from a configuration and a constructor.
//
// A daemon consists of a Config, which embeds Common, and a function New. Its cmd/<name>/main.go
// has one line:
//
//	func main() { os.Exit(daemon.Main("registry", registry.New)) }
//
// A daemon gets everything it needs from its environment in app.Host. A program can therefore run
// several daemons in one process, with its own flags, logs and networks.
package daemon
