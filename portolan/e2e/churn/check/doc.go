// Package check compares the state of each daemon with the state that a model computes.
//
// A Checker observes one daemon through its interfaces for users: its API, the names it answers,
// and the packets it forwards. It does not depend on the history of the objects, so the same
// checkers serve runs with faults. While a daemon reports that it is behind, a difference is no
// fault. When the daemon reports that it is current, a difference is a fault at once.
package check
