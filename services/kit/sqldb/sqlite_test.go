package sqldb_test

import (
	"errors"
	"path/filepath"
	"testing"

	"portolan.dev/services/kit/sqldb"
)

func TestAnEmbeddedDatabaseHasOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder with spaces?", "a#b.db")
	first, err := sqldb.OpenEmbedded(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.OpenEmbedded(t.Context(), path); !errors.Is(err, sqldb.ErrInUse) {
		t.Errorf("a second owner: %v, want ErrInUse", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := sqldb.OpenEmbedded(t.Context(), path)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnEmbeddedDatabaseIsDurableAndItsReadersOnlyRead(t *testing.T) {
	e, err := sqldb.OpenEmbedded(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var mode string
	var synchronous int
	if err := e.Writer.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		t.Fatal(err)
	}
	if err := e.Writer.QueryRow("PRAGMA synchronous").Scan(&synchronous); err != nil {
		t.Fatal(err)
	}
	if mode != "wal" || synchronous != 2 {
		t.Errorf("journal_mode %s, synchronous %d; want wal, 2 (full)", mode, synchronous)
	}
	if _, err := e.Reader.Exec("CREATE TABLE x (y integer)"); err == nil {
		t.Error("a reader could write")
	}
}
