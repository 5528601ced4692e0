// Package sqlite stores allocations in an embedded database, which belongs to one process: a single
// replica of the allocator. Every batch is one transaction and is on disk when Transact returns.
//
// The cost of a batch is the number of pages that it writes. Each row takes one page, because the
// claims are part of the row of their value, and no index has an order other than by value.
// Separate tables of allocations and claims, with an index by owner, wrote five pages for each
// value.
package sqlite
