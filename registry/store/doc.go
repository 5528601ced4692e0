// Package store keeps the registry's objects and the log of every change to them.
//
// The one invariant: a change and its place in the log are one. Every committed change has one revision, revisions have no gaps, and their order is
// the order of commits, also with several processes on one database; so whoever reads the log after revision n until it is empty has missed nothing
// and never will. The log is therefore the outbox of the change stream and the food of every in-memory view, and needs no other bookkeeping. It can
// only be had by numbering inside the commit: sequences number before it, and a reader that trusts them skips what commits late. Numbering inside the
// commit serialises commits, hence the second rule: writes are group-committed. Concurrent callers of [Store.Submit] share a transaction (package
// kit/batch) and each has its own outcome.
//
// What a write may do is decided by [Decide], in Go, once for both stores: it takes the rows that a batch touches and its operations, in order, and
// says which of them hold, what is written and what is logged. A store reads, calls it, and writes. The alternative, outcomes computed in SQL, would
// have been two sets of rules in two dialects, and could not show a write what an earlier one of its batch did.
//
// # Revision and object
//
// The revision of a write is known only when it commits, long after its object was encoded. Objects are therefore stored with
// metadata.resource_version 0 ([Encode]), and every reader sets it from the row or the record it came in ([Decode]); nothing else is ever different
// between what was stored and what is read. The stores never look into an object.
//
// # Outcomes
//
// A write that failed for a reason of its own (exists, not found, conflict, fenced) has not happened and disturbs no other. A request cancelled
// before its batch began has not happened. Once begun, Submit stays until the outcome is known, which the batch's own deadline bounds.
// [ErrUnavailable] means that the write has not happened; [ErrUnknown] that the database went away in mid-commit and could not be asked again: it is
// there as a whole, or not at all.
//
// # Fencing
//
// A row may carry an epoch (that of a Lease), and a write a [Fence]: it holds only while the named row exists with exactly that epoch, looked at in
// the very transaction of the write. Exactly, not at least: a lease that was deleted and made anew begins its epochs again, and the holder of the old
// one must not pass for a later one.
package store
