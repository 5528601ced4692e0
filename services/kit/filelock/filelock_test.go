package filelock_test

import (
	"errors"
	"path/filepath"
	"testing"

	"portolan.dev/services/kit/filelock"
)

// TestOneHolder checks that a lock has one holder at a time, and that closing the file releases it.
func TestOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Lock(path); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("a second holder: %v, want ErrHeld", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := filelock.Lock(path)
	if err != nil {
		t.Fatalf("after the first holder: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
