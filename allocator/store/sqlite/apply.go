package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"portolan.dev/allocator/store"
)

// queries are what the verbs do. Those that change an owner's value name the
// owner, so that a value that has changed hands is left alone.
var queries = map[store.Verb]string{
	store.Take: `INSERT INTO holdings (value, pool, uid, kind, namespace, name, released) VALUES (?, ?, ?, ?, ?, ?, 0)
		ON CONFLICT (value) DO UPDATE SET pool = excluded.pool, uid = excluded.uid, kind = excluded.kind,
			namespace = excluded.namespace, name = excluded.name, released = 0
		WHERE holdings.released <> 0 OR holdings.uid = excluded.uid`,
	store.Hold: `INSERT INTO claims (value, slot, confirmed, since)
		SELECT value, ?, 0, ? FROM holdings WHERE value = ? AND uid = ? AND released = 0
		ON CONFLICT (value, slot) DO UPDATE SET since = excluded.since WHERE confirmed = 0`,
	store.Confirm: `UPDATE claims SET confirmed = 1 WHERE value = ? AND slot = ?
		AND EXISTS (SELECT 1 FROM holdings h WHERE h.value = claims.value AND h.uid = ?)`,
	store.Drop: `DELETE FROM claims WHERE value = ? AND slot = ?
		AND EXISTS (SELECT 1 FROM holdings h WHERE h.value = claims.value AND h.uid = ?)`,
	store.Rest:   `UPDATE holdings SET released = ? WHERE value = ? AND uid = ? AND released = 0`,
	store.Forget: `DELETE FROM holdings WHERE released <> 0 AND released < ?`,
}

func args(op store.Op) []any {
	switch op.Verb {
	case store.Take:
		return []any{op.Value.Key(), op.Pool, op.Owner.UID, op.Owner.Kind, op.Owner.Namespace, op.Owner.Name}
	case store.Hold:
		return []any{op.Slot, millis(op.Time), op.Value.Key(), op.Owner.UID}
	case store.Confirm, store.Drop:
		return []any{op.Value.Key(), op.Slot, op.Owner.UID}
	case store.Rest:
		return []any{millis(op.Time), op.Value.Key(), op.Owner.UID}
	default:
		return []any{millis(op.Time)}
	}
}

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	return s.within(ctx, func(tx *sql.Tx) error {
		stmts := make(map[store.Verb]*sql.Stmt, len(queries))
		for _, op := range ops {
			stmt := stmts[op.Verb]
			if stmt == nil {
				stmt = tx.StmtContext(ctx, s.stmts[op.Verb])
				stmts[op.Verb] = stmt
			}
			if err := applyOne(ctx, stmt, op); err != nil {
				return err
			}
		}
		return nil
	})
}

func applyOne(ctx context.Context, stmt *sql.Stmt, op store.Op) error {
	res, err := stmt.ExecContext(ctx, args(op)...)
	if err != nil {
		return fmt.Errorf("apply operation %d on %s: %w", op.Verb, op.Value, err)
	}
	if op.Verb != store.Take {
		return nil
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("apply operation %d on %s: %w", op.Verb, op.Value, err)
	}
	if n == 0 {
		return &store.ConflictError{Value: op.Value}
	}
	return nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
