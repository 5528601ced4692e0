package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/store"
)

func (s *Store) pools(ctx context.Context) (pools []store.Pool, err error) {
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT name, use, range, state, static_band, per_protocol, avoid_buggy_ips FROM pools ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read pools: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var (
			p          store.Pool
			use, state int32
			band       int64
		)
		if err := rows.Scan(&p.Name, &use, &p.Range, &state, &band, &p.PerProtocol, &p.AvoidBuggyIPs); err != nil {
			return nil, fmt.Errorf("read pools: %w", err)
		}
		p.Use, p.State, p.Band = allocatorv1.Use(use), allocatorv1.PoolState(state), uint64(band)
		pools = append(pools, p)
	}
	return pools, rows.Err()
}

func applyPool(ctx context.Context, tx *sql.Tx, w store.PoolWrite) error {
	if w.Removed {
		return removePool(ctx, tx, w.Name)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO pools (name, use, range, state, static_band, per_protocol, avoid_buggy_ips) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
		ON CONFLICT (name) DO UPDATE SET use = excluded.use, range = excluded.range, state = excluded.state,
			static_band = excluded.static_band, per_protocol = excluded.per_protocol, avoid_buggy_ips = excluded.avoid_buggy_ips`,
		w.Name, int32(w.Use), w.Range, int32(w.State), int64(w.Band), w.PerProtocol, w.AvoidBuggyIPs)
	if err != nil {
		return fmt.Errorf("write pool %s: %w", w.Name, err)
	}
	return nil
}

func removePool(ctx context.Context, tx *sql.Tx, name string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM holdings WHERE pool = ? AND released <> 0`, name); err != nil {
		return fmt.Errorf("remove pool %s: %w", name, err)
	}
	res, err := tx.ExecContext(ctx, `DELETE FROM pools WHERE name = ?1 AND NOT EXISTS (SELECT 1 FROM holdings WHERE pool = ?1)`, name)
	if err != nil {
		return fmt.Errorf("remove pool %s: %w", name, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(store.ErrPoolInUse, err)
	}
	return nil
}
