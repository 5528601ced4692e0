package accesslog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"portolan.dev/services/kit/linelog"
)

// file is the file of a log for one interval. Only the writer uses it.
type file struct {
	start, end time.Time
	stem       string
	current    *os.File
	size       int64
}

// createFile creates the file of an interval, with partEnd at the end of its name.
func createFile(root *os.Root, t *Target, node string, start time.Time) (*file, error) {
	f := &file{start: start, end: start.Add(t.Interval), stem: t.stem(node, start)}
	if folder := t.folder(); folder != "" {
		if err := root.MkdirAll(folder, 0o750); err != nil {
			return nil, err
		}
	}
	var err error
	f.current, err = root.OpenFile(f.stem+partEnd, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o640)
	if errors.Is(err, fs.ErrExist) { // left behind by a rename that failed
		if err = finishName(root, f.stem); err == nil {
			f.current, err = root.OpenFile(f.stem+partEnd, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o640)
		}
	}
	return f, err
}

// append writes lines and returns the number of lines that are lost.
func (f *file) append(lines []byte) (lost int, err error) {
	whole, err := linelog.Append(f.current, f.size, lines)
	f.size += int64(whole)
	return linelog.Count(lines[whole:]), err
}

// finish closes the file and gives it its final name.
func (f *file) finish(root *os.Root) error {
	return errors.Join(f.current.Close(), finishName(root, f.stem))
}

// finishName gives a file its final name. If another file has that name, finishName adds the first free number to
// the end of the name. It removes an empty file.
func finishName(root *os.Root, stem string) error {
	part := stem + partEnd
	info, err := root.Lstat(part)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return root.Remove(part)
	}
	final := stem + finalEnd
	for number := 2; ; number++ {
		if _, err := root.Lstat(final); err != nil {
			break // the name is free, or the rename returns the same error
		}
		final = fmt.Sprintf("%s_%d%s", stem, number, finalEnd)
	}
	return root.Rename(part, final)
}

// finishLeftovers finishes the files that an edge of this node began before it was killed.
func (l *Logs) finishLeftovers() {
	err := fs.WalkDir(l.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			l.log.Warn("a folder of access logs cannot be read", "folder", name, "err", err)
			return nil
		}
		if !entry.Type().IsRegular() || nodeOf(name) != l.node {
			return nil
		}
		if err := finishLeftover(l.root, name); err != nil {
			l.log.Warn("an access log of the previous run keeps its name", "file", name, "err", err)
		}
		return nil
	})
	if err != nil {
		l.log.Warn("access logs of the previous run keep their names", "err", err)
	}
}

// finishLeftover cuts a file back to its last whole line and gives it its final name.
func finishLeftover(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = cutBack(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return finishName(root, name[:len(name)-len(partEnd)])
}

// cutBack removes the bytes after the last line end of a file.
func cutBack(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for end := info.Size(); end > 0; {
		begin := max(end-int64(len(block)), 0)
		part := block[:end-begin]
		if _, err := f.ReadAt(part, begin); err != nil {
			return err
		}
		if whole := linelog.Whole(part); whole > 0 {
			return f.Truncate(begin + int64(whole))
		}
		end = begin
	}
	return f.Truncate(0)
}
