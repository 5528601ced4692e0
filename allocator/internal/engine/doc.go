// Package engine combines the table and the store: requests are decided in memory and written to
// the store, many in one transaction.
//
// The invariant is that a result is returned only after it is stored. If the store fails a batch,
// the batch is undone in memory, and the table is read anew before the next batch, because a commit
// that returned an error may have been stored nevertheless.
package engine
