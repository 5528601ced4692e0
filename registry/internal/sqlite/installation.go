package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
)

// prepareInstallation makes the identity of the installation unless there is one. Its table is not in the
// migrations, because a registry of an earlier release, which does not use it, would not start on a schema
// with a migration that it does not know.
func (s *Store) prepareInstallation(ctx context.Context) error {
	const table = `CREATE TABLE IF NOT EXISTS installation (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL) STRICT`
	if _, err := s.db.Writer.ExecContext(ctx, table); err != nil {
		return err
	}
	_, err := s.db.Writer.ExecContext(ctx, `INSERT OR IGNORE INTO installation (one, id) VALUES (1, ?)`, rand.Text())
	return err
}

// Installation implements Installation of [store.Store].
func (s *Store) Installation(ctx context.Context) (id string, err error) {
	err = s.inReader(ctx, func(tx *sql.Tx) error {
		return unavailable(tx.QueryRowContext(ctx, `SELECT id FROM installation`).Scan(&id))
	})
	return id, err
}

// SetInstallation implements SetInstallation of [store.Store].
func (s *Store) SetInstallation(ctx context.Context, id string) error {
	return s.inWriter(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE installation SET id = ?`, id)
		return unavailable(err)
	})
}
