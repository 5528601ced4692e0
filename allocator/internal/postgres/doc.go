// Package postgres is the store for any number of allocators on one PostgreSQL database. Its tables
// are in a schema of their own, so that it may share the database of the registries.
//
// # A batch
//
// Every batch locks the single row of allocator_head (SELECT FOR UPDATE), reads the changes of other
// processes, is decided in the memory of the process, and is written with the next version in the same
// transaction. That takes two round trips: the first opens the transaction, locks and reads the news; the
// second writes the whole batch, of any size, and commits. The lock is held from the middle of the
// first to the end of the second.
//
// A table of batches (allocator_batches) has the keys of the rows that each batch has changed, for ten
// minutes. From it a process reads the news, and finds out whether the database still has the state
// that the process has seen: its version with its mark. Alternative: a version in each row, with an
// index; but then each written value would cost an entry of an index, and a deleted row would tell
// nothing.
//
// The conditions of a batch are checked by the database too. A value is the primary key, and a row
// is changed only if its owner is the expected one. The statement counts the rows that it has
// written, and a constraint of allocator_head refuses any other number. Raising an error in a
// function would do the same, but needs a function for each session or in the schema.
//
// The table of allocations has no foreign key to the pools. It would lock the pool's row for each
// batch, and pools change only under the lock of the head.
//
// # A lost connection
//
// If the connection is lost while a batch is committed, the next connection waits for the lock, which
// the server releases when the lost session has ended, with or without a commit. It then looks for the
// version and the mark of the batch. If they are there, the batch is stored; if not, it was not
// stored and cannot be any more. If the database does not answer within some seconds, the outcome is
// unknown, and the next batch learns it from the news.
//
// A process that stops in the middle of a batch holds the lock. If its machine is gone without
// closing the connection, the server ends the session after idle_in_transaction_session_timeout,
// which is 5 s unless the location of the database sets another. The method needs sessions: a pooler
// in between has to pool sessions, not transactions.
package postgres
