package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const columns = `value, pool, uid, kind, namespace, name, released, claims`

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, read func(store.Snapshot) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content := store.Snapshot{Position: s.position, Allocations: s.all(ctx)}
	if content.Pools, err = s.pools(ctx); err != nil {
		return err
	}
	if content.Reserves, err = s.reserves(ctx); err != nil {
		return err
	}
	return read(content)
}

// errStop ends a read early.
var errStop = errors.New("stop")

func (s *Store) all(ctx context.Context) iter.Seq2[store.Allocation, error] {
	return func(yield func(store.Allocation, error) bool) {
		err := s.read(ctx, func(h store.Allocation) error {
			if !yield(h, nil) {
				return errStop
			}
			return nil
		}, `SELECT `+columns+` FROM holdings ORDER BY value`)
		if err != nil && !errors.Is(err, errStop) {
			yield(store.Allocation{}, err)
		}
	}
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Allocation, error) {
	after := []byte{}
	if q.AfterValue != (pool.Value{}) {
		after = q.AfterValue.Key()
	}
	var found []store.Allocation
	err := s.read(ctx, func(h store.Allocation) error {
		found = append(found, h)
		return nil
	}, `SELECT `+columns+` FROM holdings WHERE (pool, value) > (?1, ?2) AND (?3 = '' OR pool = ?3) ORDER BY pool, value LIMIT ?4`,
		q.AfterPool, after, q.Pool, q.Limit)
	return found, err
}

// read calls fn for every allocation in the rows of a query.
func (s *Store) read(ctx context.Context, fn func(store.Allocation) error, query string, args ...any) (err error) {
	rows, err := s.db.Reader.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read holdings: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		h, err := scan(rows)
		if err != nil {
			return fmt.Errorf("read holdings: %w", err)
		}
		if err := fn(h); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read holdings: %w", err)
	}
	return nil
}

func scan(rows *sql.Rows) (store.Allocation, error) {
	var (
		h           store.Allocation
		key, claims []byte
		released    int64
	)
	err := rows.Scan(&key, &h.Pool, &h.Owner.UID, &h.Owner.Kind, &h.Owner.Namespace, &h.Owner.Name, &released, &claims)
	if err != nil {
		return h, err
	}
	if h.Value, err = pool.ValueOfKey(key); err != nil {
		return h, err
	}
	h.Released = row.FromMillis(released)
	if h.Claims, err = row.DecodeClaims(claims); err != nil {
		return h, fmt.Errorf("%s: %w", h.Value, err)
	}
	return h, nil
}
