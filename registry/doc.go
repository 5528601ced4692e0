// Package registry is the daemon that stores the objects.
//
// A write passes through admission (defaults, validation, allocation) into the store. The store's
// log of changes is the source of everything that is read: the in-memory view that answers gets,
// lists and watches in this replica and in the others, and the change stream that all other daemons
// follow. The invariant is that every published change is in the log, and that every follower sees
// every change of the log.
//
// The parts, from the bottom:
//
//   - store: the objects and the log.
//   - view: all objects in memory.
//   - watch: the changes, for watchers.
//   - rules: the rules of a kind that need other objects.
//   - allocator: the addresses and ports that a commit needs.
//   - admission: every write.
//   - gc: the deletion of objects, events and log records that are no longer needed.
//   - changelog: the log in the form of the API.
//   - response and api: the gRPC services.
//   - renewal: the certificates that the registry renews.
//   - backup: export and import of all objects.
package registry
