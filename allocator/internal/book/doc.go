// Package book is the state of the allocator in memory: pools, holdings and
// claims, and the rules of handing them out. It decides; the store makes it
// true.
//
// The invariant: every change to the book is in a [Change], as the operations
// that the store must carry out and as the way back should it not. Nothing here
// blocks, reads a clock or is safe for concurrent use; one goroutine owns a book.
//
// Deciding in memory keeps picking cheap and lets a group commit decide many
// requests before one transaction. Asking the database for a free value would
// cost a search per pick, and a retry per collision within the batch.
package book
