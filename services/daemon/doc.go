// Package daemon is the face that all daemons have in common: the settings each
// of them has, and the main function that turns a configuration and a
// constructor into a process.
//
// A daemon consists of Config, which embeds Common, and New; cmd/<name>/main.go
// is no more than
//
//	func main() { os.Exit(daemon.Main("registry", registry.New)) }
//
// Everything a daemon needs from its surroundings is in app.Host, so that
// several can also be built in one process by a program that has other ideas
// about flags, logs and networks.
package daemon
