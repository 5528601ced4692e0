// Package history holds the records of a run: the calls of clients and their outcomes, the changes
// that watchers saw, the answers of name servers, the connections, the log lines of daemons, and
// the registry's log of changes.
//
// Package clients writes a history, package check judges it. A Recorder takes in records from many
// goroutines and returns a copy at any time, so that the same checkers serve in the middle of a run
// and at its end.
//
// Two designs were considered. One is a single stream of events with a type each, which every
// checker searches for the types that it needs. It has one file format for all, and a new kind of
// client adds an event without touching this package. The other is a field for each kind of record.
// It was chosen because a checker's input is then visible in its code and checked by the compiler,
// and a table test writes a history as a literal. A new room with a kind of record that no other
// room has keeps the record in its own checker, see the README of the module.
package history
