// Package dump writes the content of a store into a file, and reads such a file.
//
// A file has one JSON object in each line: a header, the pools, the allocations, and an end with
// their numbers and a checksum of all lines before it. The invariant is that a file is read as a
// whole or not at all. A file that was truncated or changed is refused, and so is a file that breaks a
// rule of the allocator, for example by a value that is in no pool.
//
// Reserves are not in the file. Their values are at hand at registries, which may have used them for
// objects since. Values in reserves are written as values at rest: an allocator that starts on the new
// store closes all reserves and takes over the values of all objects before it allocates anything. After
// that a value at rest is the last to be allocated again.
//
// Lines of JSON can be read and compared with other tools. Messages of the contract, as in a backup
// of the registry, would be smaller, but the contract has no message for a value with its claims.
package dump
