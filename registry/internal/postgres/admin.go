package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	"portolan.dev/registry/store"
)

// pruneChunk is the number of records that one transaction deletes, so that none takes long.
const pruneChunk = 10_000

// Prune implements Prune of [store.Store]. It first moves the oldest revision of the head and then
// deletes records without locking the head. Records that an interrupted Prune left behind are not
// visible, and the next one deletes them.
func (s *Store) Prune(ctx context.Context, through uint64) (int64, error) {
	const move = `UPDATE registry_head SET oldest = LEAST($1, revision) WHERE oldest < LEAST($1, revision)`
	if _, err := s.pool.Exec(ctx, move, int64(min(through, math.MaxInt64))); err != nil {
		return 0, unavailable(err)
	}
	const drop = `DELETE FROM registry_changes WHERE revision = ANY (ARRAY(
		SELECT revision FROM registry_changes WHERE revision <= (SELECT oldest FROM registry_head) ORDER BY revision LIMIT $1))`
	for pruned := int64(0); ; {
		tag, err := s.pool.Exec(ctx, drop, pruneChunk)
		if err != nil {
			return pruned, unavailable(err)
		}
		pruned += tag.RowsAffected()
		if tag.RowsAffected() < pruneChunk {
			return pruned, nil
		}
	}
}

// NewEpoch implements NewEpoch of [store.Store].
func (s *Store) NewEpoch(ctx context.Context) (store.Head, error) {
	head, err := scanHead(s.pool.QueryRow(ctx, `UPDATE registry_head SET epoch = $1 RETURNING epoch, revision, oldest`, rand.Text()))
	s.ForgetTail()
	s.Notify()
	return head, err
}

// Restore implements Restore of [store.Store].
func (s *Store) Restore(ctx context.Context, at, revision uint64, rows iter.Seq2[store.Row, error]) error {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer rollback(tx)
	head, err := scanHead(tx.QueryRow(ctx, headQuery+` FOR UPDATE`))
	if err != nil {
		return err
	}
	if head.Revision != at {
		return &store.ConflictError{Have: head.Revision}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM registry_objects`); err != nil {
		return unavailable(err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM registry_changes`); err != nil {
		return unavailable(err)
	}
	if err := fill(ctx, tx, revision, rows); err != nil {
		return err
	}
	newest := max(at, revision)
	if _, err := tx.Exec(ctx, `UPDATE registry_head SET epoch = $1, revision = $2, oldest = $2`, rand.Text(), newest); err != nil {
		return unavailable(err)
	}
	if err := tx.Commit(ctx); err != nil {
		return unavailable(err)
	}
	s.ForgetTail()
	s.Notify()
	return nil
}

func fill(ctx context.Context, tx pgx.Tx, newest uint64, rows iter.Seq2[store.Row, error]) error {
	next, stop := iter.Pull2(rows)
	defer stop()
	var broken error // an error of rows, not of the database
	columns := []string{"kind", "namespace", "name", "uid", "revision", "epoch", "data"}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"registry_objects"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		row, err, more := next()
		if !more {
			return nil, nil
		}
		if err == nil {
			err = store.CheckRestored(row, newest)
		}
		if err != nil {
			broken = err
			return nil, err
		}
		return []any{row.Key.Kind, row.Key.Namespace, row.Key.Name, row.UID, row.Revision, row.Epoch, row.Data}, nil
	}))
	if broken != nil {
		return fmt.Errorf("restore: %w", broken)
	}
	return unavailable(err)
}

// Lock implements Lock of [store.Store] with an advisory lock on a connection of its own. The lock
// is lost when the connection is lost.
func (s *Store) Lock(ctx context.Context, name string, fn func(context.Context) error) error {
	conn, err := pgx.ConnectConfig(ctx, s.conn)
	if err != nil {
		return unavailable(err)
	}
	defer closeNow(conn) // releases the lock
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended('portolan registry ' || $1, 0))`, name); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unavailable(err)
	}
	held, release := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			if _, err := conn.WaitForNotification(held); err != nil {
				release(unavailable(err))
				return
			}
		}
	}()
	err = fn(held)
	release(nil)
	<-watched
	return err
}
