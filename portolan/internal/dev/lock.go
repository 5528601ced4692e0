package dev

import (
	"errors"
	"fmt"
	"os"

	"portolan.dev/services/kit/filelock"
)

// lock keeps a second installation from using the same data directory.
func lock(path string) (*os.File, error) {
	file, err := filelock.Lock(path)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("another portolan dev uses this data directory (%s is locked); stop it, or give --data-dir another folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return file, nil
}
