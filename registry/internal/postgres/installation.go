package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
)

// prepareInstallation makes the identity of the installation unless there is one. It also makes a new one
// if the database is a copy, such as one that pg_restore has filled. Otherwise a registry on a copy that was
// restored for practice would take the change stream of the original for its own.
//
// The table is not in the migrations, because a registry of an earlier release, which does not use it, would
// not start on a schema with a migration that it does not know.
func (s *Store) prepareInstallation(ctx context.Context, db *sql.DB) error {
	home, err := homeOf(ctx, db)
	if err != nil {
		return unavailable(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	if err := s.settleInstallation(ctx, tx, home); err != nil {
		return errors.Join(unavailable(err), tx.Rollback())
	}
	return unavailable(tx.Commit())
}

// homeOf returns a text that differs between any two databases of any two clusters: the identifier of the
// cluster, which its physical replicas share, and the number of the database. It is "" if the role may not
// read the identifier.
func homeOf(ctx context.Context, db *sql.DB) (home string, err error) {
	var may bool
	if err := db.QueryRowContext(ctx, `SELECT has_function_privilege('pg_control_system()', 'EXECUTE')`).Scan(&may); err != nil || !may {
		return "", err
	}
	const query = `SELECT c.system_identifier || '/' || d.oid FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()`
	err = db.QueryRowContext(ctx, query).Scan(&home)
	return home, err
}

// settleInstallation does the work of prepareInstallation in a transaction.
func (s *Store) settleInstallation(ctx context.Context, tx *sql.Tx, home string) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtext('portolan registry installation'))`); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRowContext(ctx, `SELECT to_regclass('registry_installation') IS NOT NULL`).Scan(&exists); err != nil {
		return err
	}
	if !exists { // IF NOT EXISTS would need the right to create tables at each start
		const table = `CREATE TABLE registry_installation (one boolean PRIMARY KEY CHECK (one), id text NOT NULL, home text NOT NULL)`
		if _, err := tx.ExecContext(ctx, table); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO registry_installation (one, id, home) VALUES (true, $1, $2)`, rand.Text(), home)
		return err
	}
	var id, known string
	if err := tx.QueryRowContext(ctx, `SELECT id, home FROM registry_installation`).Scan(&id, &known); err != nil {
		return fmt.Errorf("identity of the installation: %w", err)
	}
	if home == "" || home == known {
		return nil
	}
	if known != "" {
		former := id
		id = rand.Text()
		s.log.Warn("the database is a copy of another installation's, so it has an identity of its own", "former", former, "installation", id)
	}
	_, err := tx.ExecContext(ctx, `UPDATE registry_installation SET id = $1, home = $2`, id, home)
	return err
}

// Installation implements Installation of [store.Store].
func (s *Store) Installation(ctx context.Context) (id string, err error) {
	err = s.pool.QueryRow(ctx, `SELECT id FROM registry_installation`).Scan(&id)
	return id, unavailable(err)
}

// SetInstallation implements SetInstallation of [store.Store].
func (s *Store) SetInstallation(ctx context.Context, id string) error {
	_, err := s.pool.Exec(ctx, `UPDATE registry_installation SET id = $1`, id)
	return unavailable(err)
}
