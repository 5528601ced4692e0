// Package cli is the command line. Each command has a file, which is a thin layer between its flags
// and a package that does the work (client, manifest, printer, explain, workload, dev).
//
// Exit codes: 0 success, 1 failure, 2 a command that was not understood.
package cli
