package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"portolan.dev/services/kit/linelog"
)

// Stdout is the path of the standard output.
const Stdout = "stdout"

// followInterval is the interval in which the open file is compared with the file at its path.
const followInterval = time.Second

// openSink opens the destination of a log.
func openSink(o Options) (sink, error) {
	if o.Path == Stdout {
		return &stream{File: os.Stdout}, nil
	}
	f := &file{path: o.Path, maxBytes: o.MaxBytes, keep: o.Keep}
	return f, f.open()
}

// stream is a destination that is not rotated: the standard output or a device.
type stream struct {
	*os.File
	torn bool // the last write ended in the middle of a line
}

func (s *stream) write(lines []byte) (lost int, err error) {
	if s.torn {
		if _, err := s.Write([]byte("\n")); err != nil {
			return linelog.Count(lines), err
		}
		s.torn = false
	}
	n, err := s.Write(lines)
	whole := linelog.Whole(lines[:n])
	s.torn = n > whole
	return linelog.Count(lines[whole:]), err
}

// close leaves the standard output open, because it belongs to the process.
func (s *stream) close() error {
	if s.File == os.Stdout {
		return nil
	}
	return s.Close()
}

// file is a file that is rotated when it has maxBytes. The current file has the name path, the previous
// file path.1, and so on.
type file struct {
	path     string
	maxBytes int64
	keep     int
	current  *os.File // nil after an error
	device   *stream  // not nil if the path is no regular file; then the other fields are not used
	size     int64
	compared time.Time // time of the last comparison with the file at path
}

// open opens the file at path for appending, or creates it with mode 0600.
func (f *file) open() error {
	opened, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.compared = time.Now()
	if !info.Mode().IsRegular() {
		f.device = &stream{File: opened}
		return nil
	}
	f.current, f.size = opened, info.Size()
	return nil
}

// close implements sink. The file may be closed already.
func (f *file) close() error {
	if f.device != nil {
		return f.device.close()
	}
	if f.current == nil {
		return nil
	}
	err := f.current.Close()
	f.current = nil
	return err
}

// write implements sink.
func (f *file) write(lines []byte) (lost int, err error) {
	for len(lines) > 0 {
		if err := f.prepare(); err != nil {
			return linelog.Count(lines), err
		}
		if f.device != nil {
			return f.device.write(lines)
		}
		fitting := f.fitting(lines)
		if fitting == 0 {
			if err := f.rotate(); err != nil {
				return linelog.Count(lines), err
			}
			continue
		}
		whole, err := linelog.Append(f.current, f.size, lines[:fitting])
		f.size += int64(whole)
		lines = lines[whole:]
		if err != nil {
			return linelog.Count(lines), err
		}
	}
	return 0, nil
}

// prepare opens the file if it is not open. It opens it again if the file at path is another one,
// because the open file was moved or deleted.
func (f *file) prepare() error {
	if f.current != nil && time.Since(f.compared) >= followInterval {
		f.compared = time.Now()
		if !f.isAtPath() {
			_ = f.close() // all lines so far were written to it
		}
	}
	if f.current == nil && f.device == nil {
		return f.open()
	}
	return nil
}

func (f *file) isAtPath() bool {
	there, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	mine, err := f.current.Stat()
	return err == nil && os.SameFile(there, mine)
}

// fitting returns the number of bytes of the whole lines that fit into the file. An empty file takes
// one line of any length.
func (f *file) fitting(lines []byte) int {
	room := f.maxBytes - f.size
	if int64(len(lines)) <= room {
		return len(lines)
	}
	if whole := linelog.Whole(lines[:max(room, 0)]); whole > 0 || f.size > 0 {
		return whole
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// rotate renames the files and begins a new one. The oldest is deleted.
func (f *file) rotate() error {
	if err := f.close(); err != nil {
		return err
	}
	for n := f.keep; n >= 0; n-- {
		var err error
		if n == f.keep {
			err = os.Remove(f.name(n))
		} else {
			err = os.Rename(f.name(n), f.name(n+1))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return f.open()
}

// name returns the name of the current file, with number 0, or of an older one.
func (f *file) name(number int) string {
	if number == 0 {
		return f.path
	}
	return fmt.Sprintf("%s.%d", f.path, number)
}
