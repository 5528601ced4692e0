package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"portolan.dev/allocator/store"
)

// Restore implements store.Store.
func (s *Store) Restore(ctx context.Context, seen store.Position, content store.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen != s.position {
		return store.ErrOutdated
	}
	s.forget()
	return s.inTransaction(ctx, func(tx *sql.Tx) error { return s.fill(ctx, tx, content) })
}

func (s *Store) fill(ctx context.Context, tx *sql.Tx, content store.Snapshot) error {
	for _, table := range []string{`DELETE FROM holdings`, `DELETE FROM reserves`, `DELETE FROM pools`} {
		if _, err := tx.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("empty the store: %w", err)
		}
	}
	for _, p := range content.Pools {
		if err := applyPool(ctx, tx, store.PoolWrite{Pool: p}); err != nil {
			return err
		}
	}
	stmt := tx.StmtContext(ctx, s.writeStmt)
	for h, err := range content.Allocations {
		if err != nil {
			return err
		}
		if err := applyWrite(ctx, stmt, &store.Write{Allocation: h}); err != nil {
			return err
		}
	}
	return nil
}
