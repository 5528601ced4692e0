// Package cli is the command line: one file per command, each a thin layer between its flags and a package that does the work
// (client, manifest, printer, explain, workload, dev).
//
// Exit codes: 0 done, 1 it could not be done, 2 the command was not understood.
package cli
