// Package guard keeps one object from ending a daemon.
//
// A daemon does each piece of work for an object in [Guard.Do]: it puts the object into its view, plans it, writes
// what follows from it. A panic of this work ends there, and the work for all other objects goes on. The object
// then counts as not applied: the log has the stack, a metric counts the panic, a warning of the daemon's health
// names the object, and an Event tells the object's owner. It stays so until the same step succeeds for the
// object, which a change of the object, or the daemon's own retries, lead to. An object that is put into a view is
// guarded by changes.Each, so that no follower has a loop of its own.
//
// The invariant: a panic harms the object for which the work was done, and no other one. Three rules follow for the
// work. It locks with defer. It reads the object before it changes a structure that other objects share, or takes its
// changes back if Do returns a [*Panic]. And an object that a view lacks because it panicked is not deleted: work that
// removes state of a former process asks [Guard.Failed] or [Guard.Failing] first.
//
// The alternative was a recovery in the follower only: if Apply panics, the follower repeats the batch change by
// change, and leaves out the change that panics again. That needs no code in the daemons. But most work for an
// object happens after Apply, in goroutines that the follower does not know. The first batch cannot be divided,
// because daemons take it for the whole state, and delete what it lacks. And each Apply would have to bear that a
// half of a batch is repeated. The place that does the work knows its object, so it costs nothing to name it.
//
// A panic outside of Do is a broken invariant of the daemon, and ends it.
package guard
