package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"portolan.dev/services/kit/app"
	kit "portolan.dev/services/kit/postgres"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// maxAttempts is how often the news is read, and a transaction begun, if the connection turns out to
// be lost.
const maxAttempts = 3

// Transact implements store.Store.
func (s *Store) Transact(ctx context.Context, seen store.Position, decide func(store.News) (store.Batch, error)) (store.Position, error) {
	conn, n, err := s.begin(ctx, seen)
	if err != nil {
		return seen, err
	}
	b, err := decide(n)
	if err != nil || b.Empty() {
		rollback(ctx, conn)
		conn.Release()
		return n.Position, err
	}
	to := store.Position{Version: n.Position.Version + 1, Mark: newMark()}
	if err := commit(ctx, conn, to, b); err != nil {
		closeNow(conn)
		conn.Release() // the following needs another one
		return s.outcome(ctx, err, to, b)
	}
	conn.Release()
	return to, nil
}

// begin begins a transaction, takes the lock, and reads the news. Nothing was decided yet, so a lost
// connection is replaced.
func (s *Store) begin(ctx context.Context, seen store.Position) (*pgxpool.Conn, store.News, error) {
	for attempt := 1; ; attempt++ {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return nil, store.News{}, unavailable(err)
		}
		r := newsReader{seen: seen}
		queries := &pgx.Batch{}
		queries.Queue(`BEGIN`)
		r.queue(queries, ` FOR UPDATE`)
		if err = conn.SendBatch(ctx, queries).Close(); err == nil {
			n, err := r.result()
			if err != nil {
				rollback(ctx, conn)
				conn.Release()
				return nil, n, err
			}
			return conn, n, nil
		}
		closeNow(conn)
		conn.Release()
		if !s.isReplaceable(ctx, err, attempt) {
			return nil, store.News{}, unavailable(err)
		}
	}
}

// isReplaceable reports whether an error means that the connection was lost, so that another attempt on a
// new connection may succeed. The idle connections are then probably lost too, and it drops them.
func (s *Store) isReplaceable(ctx context.Context, err error, attempt int) bool {
	if attempt == maxAttempts || ctx.Err() != nil || !isLost(err) {
		return false
	}
	s.pool.Reset()
	return true
}

// isLost reports whether an error means that the connection was lost, or leads to a server that takes no
// writes.
func isLost(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || refused.Severity != "ERROR" || transient[refused.Code]
}

// transient holds the codes of errors that do not depend on the statement, so that it may succeed if
// it is repeated.
var transient = map[string]bool{
	"40001": true, // serialization_failure
	"40P01": true, // deadlock_detected
	"25006": true, // read_only_sql_transaction: this is a standby by now
}

// rollback ends a transaction in which nothing was written.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if _, err := conn.Exec(ctx, `ROLLBACK`); err != nil {
		closeNow(conn)
	}
}

// closeNow closes a connection, so that the pool does not use it again.
func closeNow(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Conn().Close(ctx) // the server ends the session either way
}

// outcome finds out whether a batch was stored although its commit returned an error. It returns the
// position of the stored batch.
func (s *Store) outcome(ctx context.Context, cause error, to store.Position, b store.Batch) (store.Position, error) {
	refused, ok := errors.AsType[*pgconn.PgError](cause)
	switch {
	case pgconn.SafeToRetry(cause):
		return to, notStored(cause)
	case !ok || refused.Severity != "ERROR":
		return s.resolve(ctx, cause, to)
	case errors.Is(cause, errPools) && refused.ConstraintName == writtenConstraint:
		return to, store.ErrPoolInUse
	case refused.ConstraintName == writtenConstraint, refused.Code == uniqueViolation:
		return to, s.conflict(ctx, cause, b)
	case transient[refused.Code]:
		return to, notStored(cause)
	default:
		return to, unavailable(cause)
	}
}

func notStored(cause error) error {
	return fmt.Errorf("%w: %w", store.ErrNotStored, unavailable(cause))
}

// resolve looks for a batch in the database after its commit was interrupted.
func (s *Store) resolve(ctx context.Context, cause error, to store.Position) (store.Position, error) {
	s.log.Warn("connection lost in a commit, of which the outcome is looked up", "err", kit.OneLine(cause))
	// The time for it does not depend on the deadline of the batch, which may be the cause.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.lookupTimeout)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		stored, err := s.find(ctx, to)
		switch {
		case err == nil && stored:
			return to, nil
		case err == nil:
			return to, notStored(cause)
		case !app.Pause(ctx, wait):
			return to, unavailable(fmt.Errorf("%w; and whether it was stored is not known: %w", cause, err))
		}
	}
}

// find reports whether a batch was stored. It waits until the session that sent the batch has ended.
func (s *Store) find(ctx context.Context, to store.Position) (stored bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM allocator_head FOR UPDATE`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM allocator_batches WHERE version = $1 AND mark = $2)`, int64(to.Version), to.Mark).Scan(&stored)
	})
	return stored, err
}

// conflict returns the error of a batch in which a value has another owner than it should.
func (s *Store) conflict(ctx context.Context, cause error, b store.Batch) error {
	keys, expected := make([][]byte, len(b.Writes)), make([]string, len(b.Writes))
	for i, w := range b.Writes {
		keys[i], expected[i] = w.Value.Key(), w.ExpectedOwner
	}
	const query = `SELECT i.value FROM unnest($1::bytea[], $2::text[]) AS i (value, expected), allocator_allocations a
		WHERE a.value = i.value AND a.released = 0 AND a.uid <> i.expected LIMIT 1`
	var key []byte
	if err := s.pool.QueryRow(ctx, query, keys, expected).Scan(&key); err != nil {
		return notStored(cause) // the value is free by now
	}
	v, err := pool.ValueOfKey(key)
	if err != nil {
		return unavailable(err)
	}
	return &store.ConflictError{Value: v}
}
