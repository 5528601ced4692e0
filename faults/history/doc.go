// Package history holds the records of a run: the calls of clients and their outcomes, the changes
// that watchers received, DNS answers, connections, the log lines of daemons, and the registry's
// log of changes.
//
// Package clients and the nemesis write a history, and package check checks it. A Recorder accepts
// records from many goroutines and returns a copy at any time, so the same checkers work during a
// run and at its end.
//
// Two designs were considered. The first is a single stream of typed events, in which every checker
// searches for the types that it needs. It needs only one file format, and a new kind of client
// adds an event without a change of this package. The second is a field for each kind of record. It
// was chosen because a checker's input is then visible in its code and checked by the compiler, and
// because a table test can write a history as a literal. Records that only one component makes are
// a field of that component's checker, not of History. README.md of the module has an example.
package history
