// Package backup exports all objects of a registry and imports them into an empty one.
//
// A backup is a stream of records: a header, batches of objects as they are at one revision, and a
// trailer with their number and a checksum. The invariant is that a backup is restored as a whole
// or not at all: a truncated or damaged stream changes nothing. A backup file contains the same
// records, each preceded by its length.
//
// A backup holds objects, not the tables of a store, so it can be moved between kinds of stores and
// does not depend on their schemas.
//
// The Leases by which registry processes fence the values at hand are not part of a backup, because
// the processes that hold them are gone when it is restored.
//
// A backup is restored into an empty registry. One that has only objects which its daemons have made by
// themselves counts as empty, so that a backup can be restored while all daemons run.
//
// A backup names the installation that it was made of. The registry that it is restored into keeps its own
// identity, and therefore leaves the change stream of the original alone. The alternative, that it takes the
// identity of the backup, would let a copy that was restored for practice disturb the original, only because
// both are configured with the same NATS server.
package backup
