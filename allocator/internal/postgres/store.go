package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	kit "portolan.dev/services/kit/postgres"
	"portolan.dev/services/kit/sqldb"

	"portolan.dev/allocator/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema is the schema of the tables, unless the location of the database sets search_path.
const schema = "allocator"

// settings are the settings of the store's sessions, unless the location of the database sets them.
//
// Statements are planned once. They join batches of unknown size with tables of unknown size, so
// they must always use the index on the key.
var settings = map[string]string{
	"application_name": "portolan-allocator",
	"search_path":      schema,
	"plan_cache_mode":  "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off", "jit": "off",
	"statement_timeout": "15000", "idle_in_transaction_session_timeout": "5000",
}

// Config is the configuration of a [Store].
type Config struct {
	// DSN is the location of the database, as a URL or as keywords and values.
	DSN string
	// Log receives losses of connections in commits. Default: nothing is logged.
	Log *slog.Logger
}

// Store is a store in a PostgreSQL database.
type Store struct {
	log           *slog.Logger
	pool          *pgxpool.Pool
	lookupTimeout time.Duration // how long the outcome of a lost batch is looked up
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a database and creates or migrates its tables. The error wraps
// [store.ErrUnavailable] if the database cannot be reached, and [store.ErrUnusable] if it refuses
// the connection or cannot be used.
func Open(ctx context.Context, config Config) (*Store, error) {
	params := settings
	if strings.Contains(config.DSN, "search_path") { // also among the options of the server
		params = withoutSearchPath()
	}
	parsed, err := kit.Parse(config.DSN, params)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	s := &Store{log: config.Log, lookupTimeout: 3 * time.Second}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := prepare(ctx, parsed.ConnConfig); err != nil {
		return nil, withRemedy(err, parsed.ConnConfig)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, parsed); err != nil {
		return nil, withRemedy(unavailable(err), parsed.ConnConfig)
	}
	return s, nil
}

func withoutSearchPath() map[string]string {
	params := map[string]string{}
	for name, value := range settings {
		if name != "search_path" {
			params[name] = value
		}
	}
	return params
}

// prepare creates the schema and the tables.
func prepare(ctx context.Context, conn *pgx.ConnConfig) (err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*conn)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return unavailable(err)
	}
	if conn.RuntimeParams["search_path"] == schema {
		if err := ensureSchema(ctx, db, conn.User); err != nil {
			return err
		}
	}
	if err := sqldb.Migrate(ctx, db, sqldb.Postgres, "allocator", files); err != nil {
		return err
	}
	const head = `WITH head AS (
		INSERT INTO allocator_head (one, version, mark, unwritten) VALUES (true, 1, $1, 0) ON CONFLICT DO NOTHING RETURNING version, mark
	) INSERT INTO allocator_batches (version, mark, changed, reserves, pools) SELECT version, mark, '{}', '{}', false FROM head`
	_, err = db.ExecContext(ctx, head, newMark())
	return unavailable(err)
}

// ensureSchema creates the schema unless it exists. The role needs the right to create one only then.
func ensureSchema(ctx context.Context, db *sql.DB, role string) error {
	var exists bool
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&exists); err != nil || exists {
		return unavailable(err)
	}
	_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+schema)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && refused.Code == uniqueViolation:
		return nil // another allocator has created it at this moment
	case ok && refused.Code == insufficientPrivilege:
		return fmt.Errorf("%w: role %s may not create the schema %s: create it by CREATE SCHEMA %s AUTHORIZATION %s", store.ErrUnusable, role, schema, schema, role)
	default:
		return unavailable(err)
	}
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

func newMark() int64 { return rand.Int64() } // #nosec G404 -- it tells states apart, and only Postgres sees it

// unavailable wraps an error of the database in [store.ErrUnavailable].
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, kit.OneLine(err))
}

// withRemedy wraps refusals, which waiting does not cure, in [store.ErrUnusable] with a remedy.
func withRemedy(err error, conn *pgx.ConnConfig) error {
	if errors.Is(err, store.ErrUnusable) {
		return err
	}
	if errors.Is(err, sqldb.ErrSchema) {
		return fmt.Errorf("%w: %w: run the program that the database was upgraded to, or import an export into an empty database", store.ErrUnusable, err)
	}
	if said := kit.Refusal(err, conn); said != "" {
		return fmt.Errorf("%w: %s", store.ErrUnusable, said)
	}
	return err
}
