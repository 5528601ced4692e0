package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"

	"portolan.dev/services/kit/sqldb"

	"portolan.dev/allocator/store"
)

//go:embed migrations
var migrations embed.FS

// Store is a store.Store in an embedded database.
type Store struct {
	db        *sqldb.Embedded
	writeStmt *sql.Stmt

	mu       sync.Mutex     // held while a batch is decided and stored, or a snapshot is read
	position store.Position // guarded by mu; another one after each change and each failure
}

var _ store.Store = (*Store)(nil)

// Open opens the database in a file, and creates it if it does not exist. The error is
// [sqldb.ErrInUse] if a process has it open.
func Open(ctx context.Context, path string) (*Store, error) {
	db, err := sqldb.OpenEmbedded(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	s.forget()
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

// forget makes all positions outdated. The caller holds mu, unless the store is not shared yet.
func (s *Store) forget() {
	s.position.Version++
	s.position.Mark = rand.Int64() // #nosec G404 -- it tells positions apart
}

// News implements store.Store. The news is always empty, because only this process changes the database.
func (s *Store) News(_ context.Context, seen store.Position) (store.News, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen != s.position {
		return store.News{}, store.ErrOutdated
	}
	return store.News{Position: seen}, nil
}

// Transact implements store.Store. After a failure every position is outdated, because a commit that
// returned an error may have been stored.
func (s *Store) Transact(ctx context.Context, seen store.Position, decide func(store.News) (store.Batch, error)) (store.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen != s.position {
		return seen, store.ErrOutdated
	}
	b, err := decide(store.News{Position: seen})
	if err != nil || b.Empty() {
		return seen, err
	}
	if err := s.inTransaction(ctx, func(tx *sql.Tx) error { return s.apply(ctx, tx, b) }); err != nil {
		s.forget()
		return seen, err
	}
	s.position.Version++
	return s.position, nil
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
