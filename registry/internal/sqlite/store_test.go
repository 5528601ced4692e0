package sqlite

import (
	"errors"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/registry/store/storetest"
	"portolan.dev/services/kit/sqldb"
)

func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, Commits: store.CommitterOptions{Usage: storetest.Usage}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Location {
		dir := t.TempDir()
		return storetest.Location{Open: func(t testing.TB) storetest.Opened {
			s := openStore(t, dir)
			return storetest.Opened{Store: s, Commit: s.commit}
		}}
	})
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	defer s.Close()
	if _, err := Open(t.Context(), Config{Dir: dir}); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("got %v, want ErrInUse", err)
	}
}

func BenchmarkCommit(b *testing.B) {
	storetest.BenchmarkCommit(b, func(b *testing.B) store.Store {
		s := openStore(b, b.TempDir())
		b.Cleanup(func() { _ = s.Close() })
		return s
	})
}
