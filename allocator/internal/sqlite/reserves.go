package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/store"
)

func (s *Store) reserves(ctx context.Context) (all []store.Reserve, err error) {
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT holder, last_grant, renewed FROM reserves ORDER BY holder`)
	if err != nil {
		return nil, fmt.Errorf("read reserves: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var (
			r              store.Reserve
			grant, renewed int64
		)
		if err := rows.Scan(&r.Holder, &grant, &renewed); err != nil {
			return nil, fmt.Errorf("read reserves: %w", err)
		}
		r.Grant, r.Renewed = uint64(grant), row.FromMillis(renewed)
		all = append(all, r)
	}
	return all, rows.Err()
}

func applyReserves(ctx context.Context, tx *sql.Tx, writes []store.ReserveWrite) error {
	for _, w := range writes {
		if err := applyReserve(ctx, tx, w); err != nil {
			return fmt.Errorf("write reserve %s: %w", w.Holder, err)
		}
	}
	return nil
}

func applyReserve(ctx context.Context, tx *sql.Tx, w store.ReserveWrite) error {
	if w.Removed {
		_, err := tx.ExecContext(ctx, `DELETE FROM reserves WHERE holder = ?`, w.Holder)
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO reserves (holder, last_grant, renewed) VALUES (?1, ?2, ?3)
		ON CONFLICT (holder) DO UPDATE SET last_grant = excluded.last_grant, renewed = excluded.renewed`,
		w.Holder, int64(w.Grant), row.Millis(w.Renewed))
	return err
}
