// Package view keeps all objects in memory, as they are at one revision.
//
// The invariant: a [State] is a whole registry at one revision and never changes. The view replaces its state once per batch of the change
// log; a reader that takes a state keeps it for as long as it likes, without a lock. That makes lists that are consistent over many pages,
// snapshots and reads within admission one and the same thing.
//
// States share structure: objects hang in trees whose changed paths are copied, so that a change costs O(log n) whatever is stored. The
// alternative, maps under a lock, reads a little faster, but a list at one revision would have to copy everything or hold writers up.
package view
