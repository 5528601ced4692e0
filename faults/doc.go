// Package faults is the module of tests that break things on purpose: whole installations whose processes are
// killed, stopped, cut off from each other and denied their disks, and simulations of the parts whose state is
// pure enough. Checkers say afterwards, and all the time, whether a promise of docs/architecture.md was broken.
//
// Its packages may import all others. Nothing imports them but tests.
package faults
