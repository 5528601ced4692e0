// Package history is what is known of a run: what clients called and were told, what watchers saw,
// what name servers answered, how connections fared, what daemons printed, and the registry's log
// of changes.
//
// Package clients writes a history, package check judges it. A Recorder takes in records from many
// goroutines and hands out a copy at any time, so that the same checkers serve in the middle of a
// run and at its end.
//
// Two shapes were considered. One is a single stream of events with a type each, which every
// checker searches for those that it knows: one file format for all, and a new kind of client adds
// an event without touching this package. The other is a field for each kind of record. It was
// chosen because a checker's input is then visible in its code and checked by the compiler, and a
// table test writes a history as a literal. A new room that records what nobody else does keeps the
// record in its own checker, see the README of the module.
package history
