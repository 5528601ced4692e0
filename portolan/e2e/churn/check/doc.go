// Package check compares what each daemon has with what a model says that it should have.
//
// A Checker looks at one daemon, through what it offers to people: its API, the names it answers, and the
// packets it forwards. It knows nothing of how the objects came about, so the same checkers serve a run with
// faults. A difference is no fault while a daemon says itself that it is behind; it is one at once when the
// daemon says that it is not.
package check
