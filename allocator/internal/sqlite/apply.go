package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/store"
)

// writeSQL writes an allocation if its value is free, at rest, or belongs to the named owner.
// Otherwise it changes no row.
const writeSQL = `INSERT INTO holdings (value, pool, uid, kind, namespace, name, released, claims) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
	ON CONFLICT (value) DO UPDATE SET pool = excluded.pool, uid = excluded.uid, kind = excluded.kind, namespace = excluded.namespace,
		name = excluded.name, released = excluded.released, claims = excluded.claims
	WHERE holdings.released <> 0 OR holdings.uid = ?9`

func (s *Store) apply(ctx context.Context, tx *sql.Tx, b store.Batch) error {
	for _, w := range b.Pools {
		if err := applyPool(ctx, tx, w); err != nil {
			return err
		}
	}
	stmt := tx.StmtContext(ctx, s.writeStmt)
	for i := range b.Writes {
		if err := applyWrite(ctx, stmt, &b.Writes[i]); err != nil {
			return err
		}
	}
	return applyReserves(ctx, tx, b.Reserves)
}

func applyWrite(ctx context.Context, stmt *sql.Stmt, p *store.Write) error {
	claims, err := row.EncodeClaims(p.Claims)
	if err != nil {
		return err
	}
	o := &p.Owner
	res, err := stmt.ExecContext(ctx, p.Value.Key(), p.Pool, o.UID, o.Kind, o.Namespace, o.Name, row.Millis(p.Released), claims, p.ExpectedOwner)
	if err != nil {
		return fmt.Errorf("write %s: %w", p.Value, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("write %s: %w", p.Value, err)
	}
	if n == 0 {
		return &store.ConflictError{Value: p.Value}
	}
	return nil
}

// DeleteExpired implements store.Store.
func (s *Store) DeleteExpired(ctx context.Context, t time.Time) error {
	if _, err := s.db.Writer.ExecContext(ctx, `DELETE FROM holdings WHERE released <> 0 AND released < ?`, row.Millis(t)); err != nil {
		return fmt.Errorf("forget what rested: %w", err)
	}
	return nil
}
