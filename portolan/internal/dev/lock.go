package dev

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock keeps a second installation from using the same data directory. The kernel releases the lock
// when the process ends, even if it crashes.
func lock(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another portolan dev uses this data directory (%s is locked); stop it, or give --data-dir another folder", path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
