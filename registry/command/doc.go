// Package command is the program `registry`: the daemon, and the commands `registry export` and
// `registry import`.
//
// The backup commands use a running registry, or its store if no registry runs, because a backup
// must also be possible if the registry does not start. The program is a package, and not the code
// of cmd/registry, so that tests that build the program can import it and thereby declare it as
// their input.
package command
