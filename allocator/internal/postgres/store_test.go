package postgres

import (
	"fmt"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/store"
	"portolan.dev/allocator/store/storetest"
)

func TestMain(m *testing.M) { kittest.Main(m) }

func openStore(t testing.TB, dsn string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: dsn, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// places returns a function that returns the location of another, empty place in one database each
// time, because creating a database takes much longer than creating a schema.
func places(t *testing.T) func(t *testing.T) string {
	t.Helper()
	dsn := kittest.Postgres(t)
	admin := connect(t, dsn)
	n := 0
	return func(t *testing.T) string {
		t.Helper()
		n++
		schema := fmt.Sprintf("place_%d", n)
		if _, err := admin.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		return withSetting(dsn, "search_path", schema)
	}
}

// withSetting adds a setting to a location.
func withSetting(dsn, name, value string) string {
	switch {
	case !strings.Contains(dsn, "://"):
		return dsn + " " + name + "=" + value
	case strings.Contains(dsn, "?"):
		return dsn + "&" + name + "=" + value
	default:
		return dsn + "?" + name + "=" + value
	}
}

func TestConformance(t *testing.T) {
	place := places(t)
	storetest.Run(t, func(t *testing.T) store.Store { return openStore(t, place(t)) })
	storetest.RunShared(t, func(t *testing.T) storetest.Open {
		dsn := place(t)
		return func(t *testing.T) store.Store { return openStore(t, dsn) }
	})
}
