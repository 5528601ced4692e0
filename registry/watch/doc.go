// Package watch hands the changes of the view to those who watch.
//
// The hub keeps the newest changes of each kind in a ring; a watcher is no more than a place in it. Publishing is an append and a wake-up, whatever
// the number of watchers, and a change is encoded once for all of them. The invariant: nobody waits for a watcher. One that falls out of the ring,
// because its client reads too slowly, is told so and starts again from the last revision it has.
//
// Rings are bounded in changes, each, and in bytes, all together: objects may be a thousand times as large as most are. Beyond the bytes the
// largest ring shrinks. Bounding each kind in bytes was the alternative; it multiplies what has to be provided for by the number of kinds.
//
// The same ring leads back: a list that began at a revision is continued, also on another replica, by taking back what changed since ([Hub.At]).
//
// A queue per watcher would need a bound each, a decision per watcher at every change, and memory for every slow one.
package watch
