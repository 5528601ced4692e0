package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"portolan.dev/services/kit/kittest"
)

// installationIn opens the store in a database of the server at dsn, and returns its identity. Without a
// name it is the database of dsn.
func installationIn(t *testing.T, dsn, database string) string {
	t.Helper()
	pool, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if database != "" {
		pool.ConnConfig.Database = database
	}
	s, err := open(t.Context(), Config{Log: kittest.Logger(t)}, pool)
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Installation(t.Context())
	if err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return id
}

// TestCopiedDatabase checks that a copy of a database is another installation, and that neither the copy nor
// the original changes its identity again.
func TestCopiedDatabase(t *testing.T) {
	dsn, other := kittest.Postgres(t), kittest.Postgres(t)
	original := installationIn(t, dsn, "")
	if again := installationIn(t, dsn, ""); again != original {
		t.Errorf("the same database is of %s, and then of %s", original, again)
	}
	admin := connect(t, other)
	pool, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := pool.ConnConfig.Database
	kittest.Eventually(t, "the copy", func() error { // the server still ends the connections of the original
		_, err := admin.Exec(t.Context(), "CREATE DATABASE "+name+"_copy TEMPLATE "+name)
		return err
	})
	defer func() {
		if _, err := admin.Exec(t.Context(), "DROP DATABASE "+name+"_copy WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	}()
	duplicate := installationIn(t, dsn, name+"_copy")
	if duplicate == original {
		t.Errorf("the copy is of the installation %s, too", original)
	}
	if again := installationIn(t, dsn, name+"_copy"); again != duplicate {
		t.Errorf("the copy is of %s, and then of %s", duplicate, again)
	}
	if still := installationIn(t, dsn, ""); still != original {
		t.Errorf("the original is of %s, and was of %s", still, original)
	}
}
