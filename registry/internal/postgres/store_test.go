package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"portolan.dev/registry/store"
	"portolan.dev/registry/store/storetest"
	"portolan.dev/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m) }

func openStore(t testing.TB, dsn string, commits store.CommitterOptions) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: dsn, Commits: commits, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStore gives every test of the suite its own schema, because creating a database takes much
// longer.
func TestStore(t *testing.T) {
	dsn := kittest.Postgres(t)
	admin := connect(t, dsn)
	places := 0
	storetest.Run(t, func(t *testing.T) storetest.Location {
		places++
		schema := fmt.Sprintf("place_%d", places)
		if _, err := admin.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		return storetest.Location{Replicas: true, Open: func(t testing.TB) storetest.Opened {
			pool, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			pool.ConnConfig.RuntimeParams["search_path"] = schema
			s, err := open(t.Context(), Config{Log: kittest.Logger(t), Commits: store.CommitterOptions{Usage: storetest.Usage}}, pool)
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Opened{Store: s, Commit: s.commit}
		}}
	})
}

func BenchmarkCommit(b *testing.B) {
	storetest.BenchmarkCommit(b, func(b *testing.B) store.Store {
		s := openStore(b, kittest.Postgres(b), store.CommitterOptions{})
		b.Cleanup(func() { _ = s.Close() })
		return s
	})
}

// TestStatementsAreNotCompiled checks the setting of every connection, and that a data source name
// may have another.
func TestStatementsAreNotCompiled(t *testing.T) {
	dsn := kittest.Postgres(t)
	compiling := " jit=on"
	if strings.Contains(dsn, "?") {
		compiling = "&jit=on"
	} else if strings.Contains(dsn, "://") {
		compiling = "?jit=on"
	}
	for suffix, want := range map[string]string{"": "off", compiling: "on"} {
		s := openStore(t, dsn+suffix, store.CommitterOptions{})
		var got string
		if err := s.pool.QueryRow(t.Context(), "SHOW jit").Scan(&got); err != nil || got != want {
			t.Errorf("jit is %q, want %q: %v", got, want, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
