// Package admission is how objects come into the registry, change and go.
//
// Every write takes one way: default, settle, patch what the client left out, validate, allocate, commit, confirm. The invariant: what is stored has passed all
// of it, and a write that failed anywhere has left nothing behind, neither an object nor a value it was allocated.
//
// Writes are compare-and-swap on the version that they were judged against; one that names no version is judged again against the newer one when
// it loses a race. So nobody overwrites what they have not seen, and those who write status and those who write the rest do not undo each other.
// Locks per object would hold only in one process, and the registry has several.
package admission
