package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"portolan.dev/registry/store"
	kit "portolan.dev/services/kit/postgres"
	"portolan.dev/services/kit/sqldb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config is the configuration of a [Store].
type Config struct {
	// DSN is the location of the database, as a URL or as keywords and values. Several hosts with
	// target_session_attrs=read-write follow a failover.
	DSN string
	// Commits are the options of group commits.
	Commits store.CommitterOptions
	// Log receives events of background connections. Default: none are logged.
	Log *slog.Logger
}

// Store is a store in a PostgreSQL database.
type Store struct {
	*store.Committer
	store.Waker
	store.RecentLog

	log    *slog.Logger
	conn   *pgx.ConnConfig // configuration of connections outside the pool
	pool   *pgxpool.Pool   // for everything except commits
	writer *writer

	stop       context.CancelFunc // stops the background tasks
	background sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// Open opens the store in a database and creates or migrates its tables. The error wraps
// [store.ErrUnavailable] if the database cannot be reached, and [store.ErrUnusable] if it refuses
// the connection or cannot be used.
func Open(ctx context.Context, config Config) (*Store, error) {
	poolConfig, err := kit.Parse(config.DSN, map[string]string{
		"application_name": "portolan-registry",
		// Postgres compiles a statement that it expects to take long. Without statistics about a new
		// database, it expects every read of the log to take long, and compiling takes a hundred milliseconds
		// each time. No statement of this store takes long enough to gain from it.
		"jit": "off",
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	return open(ctx, config, poolConfig)
}

func open(ctx context.Context, config Config, poolConfig *pgxpool.Config) (*Store, error) {
	s := &Store{log: config.Log, conn: poolConfig.ConnConfig.Copy()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.prepare(ctx); err != nil {
		return nil, s.withRemedy(err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, s.withRemedy(unavailable(err))
	}
	s.pool = pool
	s.writer = newWriter(s.conn, config.Commits.Usage)
	s.Committer = store.NewCommitter(config.Commits, s.commit)
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.background.Go(func() { s.listen(background) })
	s.background.Go(func() { s.poll(background) })
	return s, nil
}

func (s *Store) prepare(ctx context.Context) (err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*s.conn)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return unavailable(err)
	}
	if err := sqldb.Migrate(ctx, db, sqldb.Postgres, "registry", files); err != nil {
		return err
	}
	if err := checkTemporary(ctx, db); err != nil {
		return err
	}
	if _, err = db.ExecContext(ctx, `INSERT INTO registry_head (one, epoch, revision, oldest) VALUES (true, $1, 0, 0) ON CONFLICT DO NOTHING`, rand.Text()); err != nil {
		return unavailable(err)
	}
	return s.prepareInstallation(ctx, db)
}

// checkTemporary returns an error if the role may not create the temporary function that commits.
// Each writing session creates its own.
func checkTemporary(ctx context.Context, db *sql.DB) error {
	var may bool
	var role, database string
	const query = `SELECT has_database_privilege(current_database(), 'TEMPORARY'), current_user, current_database()`
	if err := db.QueryRowContext(ctx, query).Scan(&may, &role, &database); err != nil {
		return unavailable(err)
	}
	if !may {
		return fmt.Errorf("%w: role %s may make nothing temporary in the database: let it by GRANT TEMPORARY ON DATABASE %s TO %s",
			store.ErrUnusable, role, database, role)
	}
	return nil
}

// Close implements Close of [store.Store].
func (s *Store) Close() error {
	s.Committer.Close()
	s.stop()
	s.background.Wait()
	s.writer.drop()
	s.pool.Close()
	return nil
}
