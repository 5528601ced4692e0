// Package admission creates, changes and deletes the objects of the registry.
//
// Every write goes through the same three functions, in this order:
//
//   - prepare sets defaults, completes the fields that depend on the installation, keeps stored fields
//     that the client left out, and validates. It returns a step: an object to store, an object to
//     remove, or nothing to do.
//   - perform allocates the values that the object needs, calls commit, confirms or releases the
//     values, and waits until the view has the commit.
//   - commit has the store write the object and the row of the log, under the conditions of the client
//     and of the values.
//
// The invariant is that every stored object has been through all of them, and that a write that failed
// anywhere has left nothing behind, neither an object nor an allocated value.
//
// A write is a compare-and-swap on the version that it was validated against. If the client names
// no version and the write loses a race, it is prepared again with the newer version. A client
// therefore never overwrites a change that it has not seen, and writers of the status and writers
// of the other fields do not undo each other's changes. Locks per object would work only within one
// process, and a registry may have several.
//
// The commit of newly allocated values has conditions of its own (package allocator). If one of them
// does not hold, nothing is wrong with the object, so the values are released, and allocation and
// commit are repeated a few times.
//
// Several writes of one call ([Writer.WriteMany]) are prepared alike, and share a commit. Writes that
// need a call of the allocator are performed by themselves, each in a goroutine of its own. All writes
// of a call could be made so, with less code. But a thousand goroutines meet the store one by one, so
// that they make four or five commits, and each waits for the view by itself.
package admission
