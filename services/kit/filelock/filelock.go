package filelock

import (
	"errors"
	"os"
)

// ErrHeld is returned if this or another process holds the lock.
var ErrHeld = errors.New("locked by another process")

// Lock locks a file, and creates it if necessary. The lock is held until the file is closed. The
// error is [ErrHeld] if the lock is held already.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
