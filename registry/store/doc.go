// Package store keeps the registry's objects and the log of every change to them.
//
// The invariant is that a change and its place in the log are committed together. Every committed
// change has one revision, revisions have no gaps, and their order is the order of commits, also
// with several processes on one database. A reader that has read the log after revision n to its
// end has therefore missed nothing, and never will. The log serves as the outbox of the change
// stream and as the source of every in-memory view, without further bookkeeping. It requires that
// revisions are numbered inside the commit: a database sequence numbers before the commit, and a
// reader that trusts it skips a change that commits late. Numbering inside the commit serialises
// commits, hence the second rule: writes are group-committed. Concurrent callers of [Store.Submit]
// share a transaction (package kit/batch), and each gets its own outcome.
//
// [Decide] implements the rules for writes in Go, once for both stores. It takes a batch of
// operations, in order, with the rows that they touch, and returns the outcome of each operation,
// the rows to write and the records to log. A store reads the rows, calls Decide, and writes. The
// alternative, outcomes computed in SQL, would have been two sets of rules in two dialects, and an
// operation could not see the effect of an earlier operation of its batch.
//
// # Revision and object
//
// The revision of a write is known only when it commits, long after its object was encoded. Objects
// are therefore stored with metadata.resource_version 0 ([Encode]), and every reader sets it to the
// revision of the row or record ([Decode]). An object that is read differs in nothing else from the
// stored one. The stores never decode an object.
//
// # Outcomes
//
// A write that fails for its own reason (exists, not found, conflict, fenced, another epoch) is not stored
// and does not affect the other writes of its batch. A request that is cancelled before its batch
// begins is not stored. Once the batch has begun, Submit returns only when the outcome is known,
// which the batch's own deadline bounds. [ErrUnavailable] means that the write was not stored.
// [ErrUnknown] means that the connection to the database was lost in mid-commit and the outcome
// could not be looked up: the write is stored as a whole or not at all.
//
// # Fencing
//
// A row may carry an epoch (the epoch of a Lease), and a write may carry a [Fence]. The write
// succeeds only if the named row exists with exactly that epoch, which is checked in the
// transaction of the write. The epochs must be equal because a lease that was deleted and created
// again starts its epochs anew: the holder of the old lease must not pass for a later holder.
//
// A write may also name the epoch of the log ([Op.LogEpoch]). The write is then stored only in this
// log, not in one that was restored from a backup since the writer learned of the epoch.
package store
