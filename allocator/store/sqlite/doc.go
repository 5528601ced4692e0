// Package sqlite keeps allocations in an embedded database, which belongs to
// one process: a single replica of the allocator. Every Apply is one
// transaction and is on disk when it returns.
//
// What a batch costs is pages: each row is one, the claims of a value being a part
// of it, and there is no index in another order than that of the values. Tables
// of holdings and of claims, with an index by owner, wrote five pages for each
// value.
package sqlite
