// Package engine joins the book and the store: requests are decided in memory
// and made true in the store, many in one transaction.
//
// The invariant: what a caller was told is in the store. A batch that the store
// does not take is taken back in memory, and the book is read anew before the
// next one, since a failed commit may have happened all the same.
package engine
