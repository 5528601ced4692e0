// Package allocation is the state of the allocator in memory: pools, allocations and claims, and
// the rules for allocating values. It decides, and the store makes the decisions durable.
//
// The invariant is that every change to the table is recorded in a [Change], both as the operations
// that the store must execute and as the steps that undo the change if the store fails. The package
// does not block or read a clock, and it is not safe for concurrent use. One goroutine owns a
// table.
//
// Deciding in memory makes picking cheap and allows a group commit to decide many requests before
// one transaction. Asking the database for a free value would cost a search per pick, and a retry
// per collision within the batch.
package allocation
