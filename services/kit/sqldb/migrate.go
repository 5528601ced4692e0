package sqldb

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Dialect holds the SQL that differs between databases.
type Dialect struct {
	lock, unlock string // run before and after migrations; may be empty
	time         string // expression for the current time as text
	table        string // query that counts the tables named schema_migrations
}

// The dialects.
var (
	// Postgres is for PostgreSQL through pgx.
	Postgres = Dialect{
		lock:   `SELECT pg_advisory_lock(hashtext('portolan schema migrations'))`,
		unlock: `SELECT pg_advisory_unlock(hashtext('portolan schema migrations'))`,
		time:   `CAST(now() AS text)`,
		table:  `SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'schema_migrations'`,
	}
	// SQLite is for an embedded database.
	SQLite = Dialect{
		time:  `strftime('%Y-%m-%dT%H:%M:%SZ', 'now')`,
		table: `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'`,
	}
)

// ErrSchema marks errors of a database with a schema that does not fit the program. Retrying does not help.
var ErrSchema = errors.New("database schema does not fit this program")

type migration struct {
	version  int
	name     string
	checksum string
	query    string
}

// Migrate applies the missing migrations of a component, such as "registry", under the lock. The
// migrations are the files NNNN_name.sql in files. Several components may share a database.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, component string, files fs.FS) (err error) {
	wanted, err := readMigrations(files)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect for migrations: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if dialect.lock != "" {
		if _, err := conn.ExecContext(ctx, dialect.lock); err != nil {
			return fmt.Errorf("lock for migrations: %w", err)
		}
		// The unlock ignores the end of ctx, because otherwise the connection could return to the
		// pool with the lock.
		defer func() {
			_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), dialect.unlock)
			err = errors.Join(err, unlockErr)
		}()
	}
	applied, err := readApplied(ctx, conn, dialect, component)
	if err != nil {
		return fmt.Errorf("read applied migrations: %w", err)
	}
	if err := compare(component, applied, wanted); err != nil {
		return err
	}
	for _, m := range wanted[len(applied):] {
		if err := apply(ctx, conn, dialect, component, m); err != nil {
			return fmt.Errorf("migration %s of %s: %w", m.name, component, err)
		}
	}
	return nil
}

// compare returns an error unless the applied migrations are the first of the wanted ones.
func compare(component string, applied, wanted []migration) error {
	if len(applied) > len(wanted) {
		return fmt.Errorf("%w: it is at version %d of %s, the program knows %d", ErrSchema, len(applied), component, len(wanted))
	}
	for i, have := range applied {
		if have.version != wanted[i].version || have.checksum != wanted[i].checksum {
			return fmt.Errorf("%w: migration %s of %s was applied as something else (%s, checksum %s)", ErrSchema, wanted[i].name, component, have.name, have.checksum)
		}
	}
	return nil
}

func readApplied(ctx context.Context, conn *sql.Conn, dialect Dialect, component string) (applied []migration, err error) {
	var tables int
	if err := conn.QueryRowContext(ctx, dialect.table).Scan(&tables); err != nil {
		return nil, err
	}
	if tables == 0 {
		return nil, nil
	}
	rows, err := conn.QueryContext(ctx, `SELECT version, name, checksum FROM schema_migrations WHERE component = $1 ORDER BY version`, component)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m migration
		if err := rows.Scan(&m.version, &m.name, &m.checksum); err != nil {
			return nil, err
		}
		applied = append(applied, m)
	}
	return applied, rows.Err()
}

func apply(ctx context.Context, conn *sql.Conn, dialect Dialect, component string, m migration) (err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}()
	const table = `CREATE TABLE IF NOT EXISTS schema_migrations (
		component text NOT NULL, version integer NOT NULL, name text NOT NULL, checksum text NOT NULL, applied_at text NOT NULL,
		PRIMARY KEY (component, version))`
	if _, err := tx.ExecContext(ctx, table); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, m.query); err != nil {
		return err
	}
	insert := `INSERT INTO schema_migrations (component, version, name, checksum, applied_at) VALUES ($1, $2, $3, $4, ` + dialect.time + `)` // #nosec G202 -- one of two constants
	if _, err := tx.ExecContext(ctx, insert, component, m.version, m.name, m.checksum); err != nil {
		return err
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// readMigrations returns the migrations in order. Their numbers must be 1, 2, 3, …, so that a
// conflict between two branches that both added a file is found in tests and not in production.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var migrations []migration
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s: the name does not begin with a number", name)
		}
		query, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(query)
		migrations = append(migrations, migration{version: version, name: name, checksum: hex.EncodeToString(sum[:]), query: string(query)})
	}
	slices.SortFunc(migrations, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	for i, m := range migrations {
		if m.version != i+1 {
			return nil, fmt.Errorf("migration %s: number %d expected", m.name, i+1)
		}
	}
	return migrations, nil
}
