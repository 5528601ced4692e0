package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// columns are what scan reads: a row per claim, and one for a value without.
const columns = `h.value, h.pool, h.uid, h.kind, h.namespace, h.name, h.released, c.slot, c.confirmed, c.since`

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, fn func(store.Holding) error) error {
	return s.read(ctx, fn, `SELECT `+columns+` FROM holdings h LEFT JOIN claims c ON c.value = h.value ORDER BY h.value, c.slot`)
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Holding, error) {
	after := []byte{}
	if q.AfterValue != (pool.Value{}) {
		after = q.AfterValue.Key()
	}
	var found []store.Holding
	err := s.read(ctx, func(h store.Holding) error {
		found = append(found, h)
		return nil
	}, `SELECT `+columns+` FROM (
			SELECT * FROM holdings WHERE (pool, value) > (?1, ?2) AND (?3 = '' OR pool = ?3) AND (?4 = '' OR uid = ?4)
			ORDER BY pool, value LIMIT ?5
		) h LEFT JOIN claims c ON c.value = h.value ORDER BY h.pool, h.value, c.slot`,
		q.AfterPool, after, q.Pool, q.OwnerUID, q.Limit)
	return found, err
}

// read calls fn for every holding of the rows, which come sorted by it.
func (s *Store) read(ctx context.Context, fn func(store.Holding) error, query string, args ...any) (err error) {
	rows, err := s.db.Reader.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("read holdings: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var now store.Holding
	for rows.Next() {
		h, err := scan(rows)
		if err != nil {
			return fmt.Errorf("read holdings: %w", err)
		}
		if now.Value == h.Value {
			now.Claims = append(now.Claims, h.Claims...)
			continue
		}
		if now.Pool != "" {
			if err := fn(now); err != nil {
				return err
			}
		}
		now = h
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read holdings: %w", err)
	}
	if now.Pool == "" {
		return nil
	}
	return fn(now)
}

func scan(rows *sql.Rows) (store.Holding, error) {
	var (
		h         store.Holding
		key       []byte
		released  int64
		slot      sql.NullString
		confirmed sql.NullBool
		since     sql.NullInt64
	)
	err := rows.Scan(&key, &h.Pool, &h.Owner.UID, &h.Owner.Kind, &h.Owner.Namespace, &h.Owner.Name, &released, &slot, &confirmed, &since)
	if err != nil {
		return h, err
	}
	if h.Value, err = pool.ValueOfKey(key); err != nil {
		return h, err
	}
	h.Released = fromMillis(released)
	if slot.Valid {
		h.Claims = []store.Claim{{Slot: slot.String, Confirmed: confirmed.Bool, Since: fromMillis(since.Int64)}}
	}
	return h, nil
}
