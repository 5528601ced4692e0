// Package program is the allocator as a program of its own: the daemon with every kind of store, and
// the commands that move allocations from one store to another.
//
// It is a package apart from allocator because it links the driver of Postgres, which the command
// line does not need: portolan dev runs the allocator with the embedded store.
package program
