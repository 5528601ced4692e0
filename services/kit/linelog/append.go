package linelog

import (
	"bytes"
	"errors"
	"os"
)

// Append writes lines to the end of a file that was opened with O_APPEND and has size bytes. It
// returns the number of bytes of the lines that were written completely. If the disk is full in the
// middle of a line, Append removes the part of that line, so that it does not spoil the next one.
func Append(f *os.File, size int64, lines []byte) (whole int, err error) {
	n, err := f.Write(lines)
	whole = Whole(lines[:n])
	if n > whole {
		err = errors.Join(err, f.Truncate(size+int64(whole)))
	}
	return whole, err
}

// Whole returns the number of bytes up to the last line end in text.
func Whole(text []byte) int { return bytes.LastIndexByte(text, '\n') + 1 }

// Count returns the number of line ends in text.
func Count(text []byte) int { return bytes.Count(text, []byte("\n")) }
