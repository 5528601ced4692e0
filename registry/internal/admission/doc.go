// Package admission creates, changes and deletes the objects of the registry.
//
// Every write takes the same steps: set defaults, complete the fields that depend on the
// installation, keep stored fields that the client left out, validate, allocate, commit, settle.
// The invariant is that every stored object has passed all steps, and that a write that failed at
// any step has left nothing behind, neither an object nor an allocated value.
//
// A write is a compare-and-swap on the version that it was validated against. If the client names
// no version and the write loses a race, it is validated again against the newer version. A client
// therefore never overwrites a change that it has not seen, and writers of the status and writers
// of the other fields do not undo each other's changes. Locks per object would work only within one
// process, and a registry may have several.
//
// The commit of newly allocated values has conditions of its own (package allocator). If one of them
// does not hold, nothing is wrong with the object, so the values are given up, and allocation and
// commit are repeated a few times.
//
// Several writes of one call ([Writer.WriteMany]) take the same steps, and share the commit. The
// alternative was one goroutine for each write of a call, all through the single path: less code, but
// a thousand goroutines meet the store one by one, so that they are four commits or five, and each
// waits for the view by itself. It is what writes that need the allocator do.
package admission
