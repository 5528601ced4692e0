package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/sqldb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config is the configuration of a [Store].
type Config struct {
	// Dir is the folder of the database. It is created if it does not exist.
	Dir string
	// Commits are the options of group commits.
	Commits store.CommitterOptions
}

// Store is a store in a file.
type Store struct {
	*store.Committer
	store.Waker
	store.RecentLog

	db     *sqldb.Embedded
	writer *writer
	usage  store.UsageFunc
	locks  locks
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a folder.
func Open(ctx context.Context, config Config) (*Store, error) {
	db, err := sqldb.OpenEmbedded(ctx, filepath.Join(config.Dir, "registry.db"))
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{db: db, usage: config.Commits.Usage}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", config.Dir, err), db.Close())
	}
	s.Committer = store.NewCommitter(config.Commits, s.commit)
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if err := sqldb.Migrate(ctx, s.db.Writer, sqldb.SQLite, "registry", files); err != nil {
		return err
	}
	_, err = s.db.Writer.ExecContext(ctx, `INSERT OR IGNORE INTO head (one, epoch, revision, oldest) VALUES (1, ?, 0, 0)`, rand.Text())
	if err != nil {
		return err
	}
	if err := s.prepareInstallation(ctx); err != nil {
		return err
	}
	s.writer, err = newWriter(ctx, s.db.Writer)
	return err
}

// Close implements Close of [store.Store].
func (s *Store) Close() error {
	s.Committer.Close()
	return errors.Join(s.writer.close(), s.db.Close())
}

// inWriter runs fn in a transaction on the writing connection.
func (s *Store) inWriter(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.db.Writer.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return unavailable(tx.Commit())
}

// unavailable wraps an error of the database in [store.ErrUnavailable].
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
