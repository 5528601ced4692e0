// Package watch sends the changes of the view to watchers.
//
// The hub keeps the newest changes of each kind in a ring, and a watcher is a position in that
// ring. Publishing is an append and a wake-up, regardless of the number of watchers, and a change
// is encoded once for all of them. The invariant is that publishing never waits for a watcher. If a
// client reads too slowly, the ring drops changes before the watcher has sent them; the watch then
// ends with an error, and the client resumes from the last revision that it has.
//
// Each ring is bounded in changes, and all rings together are bounded in bytes, because some
// objects are a thousand times as large as most. Above the limit of bytes the largest ring shrinks.
// The alternative, a limit of bytes for each kind, would multiply the memory to provide by the
// number of kinds.
//
// The ring also leads back in time: a list that began at a revision continues at that revision,
// also on another replica, by undoing the changes since then ([Hub.At]).
//
// A queue per watcher was rejected: each would need its own bound, every change would have to be
// offered to every watcher, and every slow watcher would hold memory.
package watch
