// Package faults is the module of tests that break things on purpose: whole installations whose
// processes are killed, stopped, cut off from each other and denied their disks, and simulations of
// the parts whose state is pure enough. Checkers find broken promises, meanwhile and afterwards.
// docs/reliability.md lists the promises and what was measured.
//
// Its packages may import all others. Only tests import them.
package faults
