// Package postgres is the store for production: any number of registries on one PostgreSQL database.
//
// The one invariant is that of package store, among processes that know nothing of each other: every commit updates the one row of registry_head in
// its own transaction, so commits happen one after the other, in the order of their revisions, and a rollback takes its revisions back.
//
// # A batch
//
// A batch is one statement (statement.go): it takes revisions from the head, writes rows and log, and notifies the other processes. It is optimistic:
// each write brings what it expects of its row (absent, of this revision, of this UID), and if anything is not as expected the statement writes
// nothing. It is a function of the session, because only a function can undo what it did without an error in the server's log. Then, and for batches that write to one key twice, the batch is done with the head locked first: read the rows, store.Decide, and the same
// statement with what was decided. The common case costs one round trip, in which the head is locked from the middle of the statement to its commit;
// deciding in SQL instead would save the second way and need all the rules a second time.
//
// # A lost connection
//
// All commits of a process go through one connection, which holds an advisory lock that belongs to the process. When the connection is lost in
// mid-commit, the next one gets that lock only after the former backend is gone (it is told to go), and then looks for the mark of the batch in the
// log: found, it was committed, and its revisions are there to be told; not found, it was not and cannot be any more, and is tried again. Only if
// that cannot be done within a few seconds is the outcome [store.ErrUnknown]. It needs a session: a pooler between registry and database
// has to pool sessions, not transactions.
//
// What a killed process sent last may be waiting in the server, which notices the loss only when it wants to answer. Sessions that commit therefore have a
// limit for each statement and for silence in a transaction, of 15 s, unless the DSN sets statement_timeout and
// idle_in_transaction_session_timeout itself.
//
// # Waking
//
// A process is woken by its own commits, by the notification that each batch of another sends, and by looking at the head every 100 ms in case a
// notification was lost. Its own commits it need not read: their records are at hand (store.Recent).
package postgres
