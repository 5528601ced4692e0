package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// File is a temporary file. Commit or CommitNew gives it its name.
type File struct {
	*os.File

	path string
	mode fs.FileMode
}

// WriteFile creates or replaces the file at path. The umask does not change the mode.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// Create creates a temporary file. A commit gives it the path and the mode. The caller calls Discard at
// the end, also after a commit.
func Create(path string, mode fs.FileMode) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // has mode 0600
	if err != nil {
		return nil, err
	}
	return &File{File: f, path: path, mode: mode}, nil
}

// Commit closes the file and renames it to its path. It replaces a file that is there.
func (f *File) Commit() error {
	return f.commit(os.Rename)
}

// CommitNew closes the file and gives it its path. If there is a file with that path, it returns
// fs.ErrExist and leaves that file as it is.
func (f *File) CommitNew() error {
	return f.commit(os.Link) // Discard removes the temporary name
}

func (f *File) commit(name func(from, to string) error) error {
	if err := errors.Join(f.Chmod(f.mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), f.path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(f.path))
}

// Discard closes and removes the temporary file. After a commit it does not change the file at the
// path.
func (f *File) Discard() {
	_ = f.Close()           // fails after a commit
	_ = os.Remove(f.Name()) // fails after a rename
}

// syncFolder syncs the names of a folder's files to the disk. A folder that this process may write to but
// not read, and file systems that cannot sync folders, are no error, because the file is complete.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	err = errors.Join(folder.Sync(), folder.Close())
	if errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
