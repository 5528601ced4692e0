// Package sqlite is the embedded store: a file, for one process.
//
// The one invariant is that of package store; here it is easy, since one connection writes. A commit is on disk when it returns (WAL,
// synchronous=FULL). Several replicas cannot share it: a second process is refused with [portolan.dev/services/kit/sqldb.ErrInUse]. It is what
// `portolan dev` and small installations use; package postgres is for the rest.
package sqlite
