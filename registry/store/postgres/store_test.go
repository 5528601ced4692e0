package postgres

import (
	"testing"

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

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		dsn := kittest.Postgres(t)
		return storetest.Place{Replicas: true, Open: func(t testing.TB) storetest.Opened {
			s := openStore(t, dsn, store.CommitterOptions{})
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
