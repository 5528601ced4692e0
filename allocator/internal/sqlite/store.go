package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/sqldb"

	"portolan.dev/allocator/store"
)

//go:embed migrations
var migrations embed.FS

// Store is a store.Store in an embedded database.
type Store struct {
	db        *sqldb.Embedded
	writeStmt *sql.Stmt
}

var _ store.Store = (*Store)(nil)

// Open opens the database in a file, and creates it if it does not exist.
func Open(ctx context.Context, path string) (*Store, error) {
	db, err := sqldb.OpenEmbedded(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if err := sqldb.Migrate(ctx, s.db.Writer, sqldb.SQLite, "allocator", files); err != nil {
		return err
	}
	if s.writeStmt, err = s.db.Writer.PrepareContext(ctx, writeSQL); err != nil {
		return fmt.Errorf("prepare statement: %w", err)
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	var err error
	if s.writeStmt != nil {
		err = s.writeStmt.Close()
	}
	return errors.Join(err, s.db.Close())
}

// Pools implements store.Store.
func (s *Store) Pools(ctx context.Context) (pools []store.Pool, err error) {
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT name, use, range, state, static_band FROM pools ORDER BY name`)
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
		if err := rows.Scan(&p.Name, &use, &p.Range, &state, &band); err != nil {
			return nil, fmt.Errorf("read pools: %w", err)
		}
		p.Use, p.State, p.Band = allocatorv1.Use(use), allocatorv1.PoolState(state), uint64(band)
		pools = append(pools, p)
	}
	return pools, rows.Err()
}

// CreatePool implements store.Store.
func (s *Store) CreatePool(ctx context.Context, p store.Pool) error {
	return s.execOne(ctx, "create pool", store.ErrPoolExists,
		`INSERT INTO pools (name, use, range, state, static_band) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		p.Name, int32(p.Use), p.Range, int32(p.State), int64(p.Band))
}

// UpdatePool implements store.Store.
func (s *Store) UpdatePool(ctx context.Context, p store.Pool) error {
	return s.execOne(ctx, "update pool", store.ErrPoolNotFound,
		`UPDATE pools SET use = ?, range = ?, state = ?, static_band = ? WHERE name = ?`,
		int32(p.Use), p.Range, int32(p.State), int64(p.Band), p.Name)
}

// execOne runs a statement that must change one row. If it changes no row, execOne returns none.
func (s *Store) execOne(ctx context.Context, what string, none error, query string, args ...any) error {
	res, err := s.db.Writer.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(none, err)
	}
	return nil
}

// DeletePool implements store.Store.
func (s *Store) DeletePool(ctx context.Context, name string) error {
	return s.inTransaction(ctx, func(tx *sql.Tx) error {
		var used int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM holdings WHERE pool = ? AND released = 0`, name).Scan(&used); err != nil {
			return fmt.Errorf("delete pool: %w", err)
		}
		if used > 0 {
			return store.ErrPoolInUse
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM holdings WHERE pool = ?`, name); err != nil {
			return fmt.Errorf("delete pool: %w", err)
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM pools WHERE name = ?`, name)
		if err != nil {
			return fmt.Errorf("delete pool: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(store.ErrPoolNotFound, err)
		}
		return nil
	})
}

// inTransaction runs do in a transaction, which it commits unless do fails.
func (s *Store) inTransaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.Writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(tx); err != nil {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
