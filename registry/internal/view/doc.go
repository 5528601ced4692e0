// Package view keeps all objects in memory, as they are at one revision.
//
// The invariant is that a [State] holds the whole registry at one revision and never changes. The
// view replaces its state once per batch of the change log. A reader keeps a state for as long as
// it likes, without a lock. Consistent lists over many pages, snapshots, and reads within admission
// all use it.
//
// States share structure: objects are kept in trees of which only the changed paths are copied, so
// a change costs O(log n) for n objects. The alternative, maps under a lock, is a little faster to
// read, but a list at one revision would have to copy everything or block writers.
package view
