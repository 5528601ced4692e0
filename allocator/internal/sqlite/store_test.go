package sqlite_test

import (
	"path/filepath"
	"testing"

	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/store"
	"portolan.dev/allocator/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
