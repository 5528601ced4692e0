package postgres

import (
	"errors"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/store"
)

// TestARoleWithItsSchemaOnly opens a store with a role that may do nothing in the database but use a
// schema that was made for it.
func TestARoleWithItsSchemaOnly(t *testing.T) {
	dsn := kittest.NewCluster(t).Database(t)
	admin := connect(t, dsn)
	run := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE ROLE clerk LOGIN`)
	clerk := withSetting(dsn, "user", "clerk")
	s, err := Open(t.Context(), Config{DSN: clerk})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "CREATE SCHEMA allocator AUTHORIZATION clerk") {
		t.Errorf("without a schema, and without the right to create one: %v", err)
	}
	run(`CREATE SCHEMA allocator AUTHORIZATION clerk`)
	openStore(t, clerk)
	for what, dsn := range map[string]string{
		"a role that does not exist":     withSetting(dsn, "user", "nobody"),
		"a database that does not exist": withSetting(dsn, "dbname", "nothing"),
	} {
		if s, err := Open(t.Context(), Config{DSN: dsn}); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("%s: %v, %v", what, s, err)
		}
	}
}

// TestTheDatabaseOfTheRegistries creates the tables of two stores beside each other: in the schema of
// the allocator, and in another one that the location names.
func TestTheDatabaseOfTheRegistries(t *testing.T) {
	dsn := kittest.Postgres(t)
	admin := connect(t, dsn)
	first, second := openStore(t, dsn), openStore(t, withSetting(dsn, "search_path", "public"))
	at, _ := present(t, first)
	if _, err := first.Transact(t.Context(), at, func(store.News) (store.Batch, error) { return batchOf(30001), nil }); err != nil {
		t.Fatal(err)
	}
	if _, values := present(t, second); values != 0 {
		t.Errorf("the store in another schema has %d values", values)
	}
	var tables int
	const query = `SELECT count(*) FROM information_schema.tables WHERE table_name = 'allocator_allocations' AND table_schema IN ('allocator', 'public')`
	if err := admin.QueryRow(t.Context(), query).Scan(&tables); err != nil || tables != 2 {
		t.Errorf("%d tables, %v", tables, err)
	}
}
