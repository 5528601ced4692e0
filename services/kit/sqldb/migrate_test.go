package sqldb_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/sqldb"
)

func files(pairs ...string) fstest.MapFS {
	folder := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		folder[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return folder
}

var (
	first  = files("0001_init.sql", "CREATE TABLE a (x integer);\nCREATE TABLE b (x integer);")
	second = files("0001_init.sql", "CREATE TABLE a (x integer);\nCREATE TABLE b (x integer);", "0002_more.sql", "INSERT INTO a VALUES (7)")
)

// eachDialect runs a test on an empty database of each dialect.
func eachDialect(t *testing.T, test func(t *testing.T, db *sql.DB, dialect sqldb.Dialect)) {
	t.Run("sqlite", func(t *testing.T) {
		embedded, err := sqldb.OpenEmbedded(t.Context(), filepath.Join(t.TempDir(), "test.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer embedded.Close()
		test(t, embedded.Writer, sqldb.SQLite)
	})
	t.Run("postgres", func(t *testing.T) {
		db, err := sql.Open("pgx", kittest.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		test(t, db, sqldb.Postgres)
	})
}

func TestMigrationsAreAppliedOnceAndInOrder(t *testing.T) {
	eachDialect(t, func(t *testing.T, db *sql.DB, dialect sqldb.Dialect) {
		for _, folder := range []fstest.MapFS{first, first, second, second} {
			if err := sqldb.Migrate(t.Context(), db, dialect, "one", folder); err != nil {
				t.Fatal(err)
			}
		}
		if got := count(t, db, "a"); got != 1 {
			t.Errorf("the second migration left %d rows, want 1", got)
		}
		if err := sqldb.Migrate(t.Context(), db, dialect, "two", files("0001_init.sql", "CREATE TABLE c (x integer)")); err != nil {
			t.Errorf("another component in the same database: %v", err)
		}
	})
}

func TestAMigrationThatFailsLeavesNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, db *sql.DB, dialect sqldb.Dialect) {
		broken := files("0001_init.sql", "CREATE TABLE a (x integer)", "0002_bad.sql", "INSERT INTO a VALUES (1); INSERT INTO nowhere VALUES (1)")
		if err := sqldb.Migrate(t.Context(), db, dialect, "one", broken); err == nil {
			t.Fatal("a broken migration was applied")
		}
		if got := count(t, db, "a"); got != 0 {
			t.Errorf("the broken migration left %d rows", got)
		}
		mended := files("0001_init.sql", "CREATE TABLE a (x integer)", "0002_good.sql", "INSERT INTO a VALUES (1)")
		if err := sqldb.Migrate(t.Context(), db, dialect, "one", mended); err != nil {
			t.Errorf("after mending: %v", err)
		}
	})
}

func TestADatabaseThatDoesNotFitIsRefused(t *testing.T) {
	tests := map[string]fstest.MapFS{
		"changed file":  files("0001_init.sql", "CREATE TABLE a (y integer)", "0002_more.sql", "INSERT INTO a VALUES (7)"),
		"newer than us": first,
	}
	eachDialect(t, func(t *testing.T, db *sql.DB, dialect sqldb.Dialect) {
		if err := sqldb.Migrate(t.Context(), db, dialect, "one", second); err != nil {
			t.Fatal(err)
		}
		for name, folder := range tests {
			if err := sqldb.Migrate(t.Context(), db, dialect, "one", folder); !errors.Is(err, sqldb.ErrSchema) {
				t.Errorf("%s: %v, want ErrSchema", name, err)
			}
		}
	})
}

func TestMigrationFilesAreNumberedWithoutGaps(t *testing.T) {
	eachDialect(t, func(t *testing.T, db *sql.DB, dialect sqldb.Dialect) {
		for name, folder := range map[string]fstest.MapFS{
			"gap":       files("0001_a.sql", "", "0003_b.sql", ""),
			"twice":     files("0001_a.sql", "", "0001_b.sql", ""),
			"no number": files("init.sql", ""),
		} {
			if err := sqldb.Migrate(t.Context(), db, dialect, "one", folder); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
	})
}

func TestProcessesThatStartAtOnceMigrateOnce(t *testing.T) {
	eachDialect(t, func(t *testing.T, db *sql.DB, dialect sqldb.Dialect) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := sqldb.Migrate(t.Context(), db, dialect, "one", second); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := count(t, db, "a"); got != 1 {
			t.Errorf("%d rows, want 1", got)
		}
	})
}

func count(t *testing.T, db *sql.DB, table string) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
