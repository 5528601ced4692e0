// Package sqlite is the embedded store: a file, for one process.
//
// It keeps the invariant of package store with a single connection that writes. A commit is on disk
// when it returns (WAL, synchronous=FULL). Replicas cannot share the file: a second process is
// refused with [portolan.dev/services/kit/sqldb.ErrInUse]. The store is meant for `portolan dev`
// and small installations; other installations use package postgres.
package sqlite
