package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"iter"
	"sync"

	"portolan.dev/registry/store"
)

// Prune implements Prune of [store.Store].
func (s *Store) Prune(ctx context.Context, through uint64) (pruned int64, err error) {
	err = s.inWriter(ctx, func(tx *sql.Tx) error {
		head, err := readHead(ctx, tx)
		if err != nil {
			return err
		}
		through = min(through, head.Revision)
		if through <= head.Oldest {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `UPDATE head SET oldest = ?`, through); err != nil {
			return unavailable(err)
		}
		result, err := tx.ExecContext(ctx, `DELETE FROM changes WHERE revision <= ?`, through)
		if err != nil {
			return unavailable(err)
		}
		pruned, err = result.RowsAffected()
		return err
	})
	return pruned, err
}

// NewEpoch implements NewEpoch of [store.Store].
func (s *Store) NewEpoch(ctx context.Context) (head store.Head, err error) {
	err = s.inWriter(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE head SET epoch = ?`, rand.Text()); err != nil {
			return unavailable(err)
		}
		head, err = readHead(ctx, tx)
		return err
	})
	s.ForgetTail()
	s.Notify()
	return head, err
}

// Restore implements Restore of [store.Store].
func (s *Store) Restore(ctx context.Context, at, revision uint64, rows iter.Seq2[store.Row, error]) error {
	err := s.inWriter(ctx, func(tx *sql.Tx) error {
		head, err := readHead(ctx, tx)
		if err != nil {
			return err
		}
		if head.Revision != at {
			return &store.ConflictError{Have: head.Revision}
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM objects; DELETE FROM changes`); err != nil {
			return unavailable(err)
		}
		if err := s.fill(ctx, tx, revision, rows); err != nil {
			return err
		}
		newest := max(at, revision)
		_, err = tx.ExecContext(ctx, `UPDATE head SET epoch = ?, revision = ?, oldest = ?`, rand.Text(), newest, newest)
		return unavailable(err)
	})
	s.ForgetTail()
	s.Notify()
	return err
}

func (s *Store) fill(ctx context.Context, tx *sql.Tx, revision uint64, rows iter.Seq2[store.Row, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := store.CheckRestored(row, revision); err != nil {
			return err
		}
		if err := s.writer.writeRows(ctx, tx, []store.Write{{Key: row.Key, After: &row}}); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// Lock implements Lock of [store.Store]. The store belongs to one process, so the locks are in
// memory.
func (s *Store) Lock(ctx context.Context, name string, fn func(context.Context) error) error {
	held := s.locks.named(name)
	select {
	case held <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-held }()
	return fn(ctx)
}

// locks are channels that hold one element while their lock is held. Unlike for a mutex, waiting
// can be cancelled.
type locks struct {
	mu     sync.Mutex
	byName map[string]chan struct{} // guarded by mu
}

func (l *locks) named(name string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]chan struct{}{}
	}
	if l.byName[name] == nil {
		l.byName[name] = make(chan struct{}, 1)
	}
	return l.byName[name]
}
