// Package backup copies all objects of a registry out and into an empty one.
//
// A backup is a stream of records: a header, batches of objects as they are at one revision, and a trailer with their number and a checksum. The invariant:
// a backup is restored as a whole or not at all; a stream that was cut off or damaged changes nothing. As a file it is the same records, each preceded by its
// length.
//
// It holds objects, not the tables of a store, so that it moves between kinds of stores and outlives their schemas.
package backup
