// Package sqlite keeps allocations in an embedded database, which belongs to
// one process: a single replica of the allocator. Every Apply is one
// transaction and is on disk when it returns.
package sqlite
