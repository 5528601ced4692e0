// Package postgres is the store for production: any number of registries on one PostgreSQL
// database.
//
// It keeps the invariant of package store among processes that do not communicate otherwise. Every
// commit updates the single row of registry_head in its own transaction. Commits are therefore
// serialised, in the order of their revisions, and a rollback returns its revisions.
//
// # A batch
//
// A batch is one statement (statement.go): it takes revisions from the head, writes the rows and
// the log, and notifies the other processes. It is optimistic: each write states the expected state
// of its row (absent, of this revision, of this UID) and the expected epoch of the log, and if
// anything differs, the statement writes nothing. The statement calls a function of the session, because
// only a function can undo its writes without an error in the server's log. If an expectation does not
// hold, or if the batch writes to one key twice, the batch is executed under the lock of the head: read
// the rows, call store.Decide, and run the same statement with the decided writes. The common case takes
// one round trip, in which the head is locked from the middle of the statement to its commit. Deciding in
// SQL would make the second way unnecessary, but would need a second implementation of all rules.
//
// # A lost connection
//
// All commits of a process use one connection, which holds an advisory lock that belongs to the
// process. If the connection is lost in mid-commit, the next connection terminates the former
// backend and gets the lock only after that backend is gone. It then looks for the mark of the
// batch in the log. If the mark is there, the batch was committed, and its revisions are returned.
// If it is not, the batch was not committed and cannot be any more, and it is tried again. The
// outcome is [store.ErrUnknown] only if this is not possible within a few seconds. The method needs
// sessions: a connection pooler between registry and database has to pool sessions, not
// transactions.
//
// The last statement of a killed process may still wait in the server, which notices the lost
// connection only when it sends the result. Sessions that commit therefore have a limit of 15 s for
// each statement and for idle time in a transaction, unless the DSN sets statement_timeout and
// idle_in_transaction_session_timeout itself.
//
// # Waking
//
// A process wakes its waiters after its own commits, after a notification, which each batch of
// another process sends, and after a change of the head, which it reads every 100 ms in case a
// notification was lost. It need not read its own commits from the database, because store.RecentLog
// keeps their records.
package postgres
