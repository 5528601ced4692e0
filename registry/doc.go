// Package registry is the daemon that keeps the objects.
//
// A write goes through admission (defaults, validation, allocation) into the store, whose log of changes is the source of everything that is read: the view
// in memory that answers gets, lists and watches, here and in other replicas, and the change stream that all other daemons follow. The invariant: nobody
// learns of a change that is not in the log, and nobody who follows misses one that is.
//
// The parts, from the bottom: store (objects and log), view (all objects in memory), watch (changes to watchers), kinds (what is special about
// each kind), alloc (addresses and ports around a commit), admission (every write), gc (what goes by itself), changelog (the log as others know it), wire and api (the
// gRPC services), backup.
package registry
