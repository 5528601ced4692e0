package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskSize is the size of a machine's disk in bytes. Each program needs only a fraction of it.
const diskSize = 256 << 20

// fillFile is the name of the file with which Fill fills a disk.
const fillFile = "filler"

// mountDisk mounts a tmpfs for a machine and returns its mount point.
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

// Fill writes to a file on the machine's disk until the disk is full.
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

// EndFill deletes the file that Fill wrote.
func (m *Machine) EndFill() error { return os.Remove(filepath.Join(m.Disk, fillFile)) }

// LoseDisk kills the process and deletes everything on the machine's disk. The caller has to start the process again.
func (m *Machine) LoseDisk() error {
	errs := []error{m.Kill()}
	entries, err := os.ReadDir(m.Disk)
	errs = append(errs, err)
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(m.Disk, e.Name())))
	}
	return errors.Join(errs...)
}
