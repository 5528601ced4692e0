// Package admission creates, changes and deletes the objects of the registry.
//
// Every write takes the same steps: set defaults, complete the fields that depend on the
// installation, keep stored fields that the client left out, validate, allocate, commit, confirm.
// The invariant is that every stored object has passed all steps, and that a write that failed at
// any step has left nothing behind, neither an object nor an allocated value.
//
// A write is a compare-and-swap on the version that it was validated against. If the client names
// no version and the write loses a race, it is validated again against the newer version. A client
// therefore never overwrites a change that it has not seen, and writers of the status and writers
// of the other fields do not undo each other's changes. Locks per object would work only within one
// process, and a registry may have several.
package admission
