package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskSize is the size of a machine's disk in bytes. Each program needs a fraction of it.
const diskSize = 256 << 20

// filler is the file that fills a disk.
const fillFile = "filler"

// disk makes a file system of its own for a machine.
func (l *Lab) mountDisk(name string) string {
	l.Helper()
	dir := filepath.Join(l.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)); err != nil {
		l.Fatalf("tmpfs: %v", err)
	}
	l.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			l.Errorf("tmpfs of %s: %v", name, err)
		}
	})
	return dir
}

// Fill fills the machine's disk.
func (m *Machine) Fill() error {
	f, err := os.OpenFile(filepath.Join(m.Disk, fillFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

// EndFill deletes the file of Fill.
func (m *Machine) EndFill() error { return os.Remove(filepath.Join(m.Disk, fillFile)) }
