package terminal

import (
	"io"
	"sync"
	"unicode/utf8"
)

// Writer escapes the invisible characters of its input, except for line breaks and tabs. It is safe
// for concurrent use.
type Writer struct {
	raw io.Writer

	mu      sync.Mutex
	partial []byte // beginning of a character whose other bytes come with the next write
}

// NewWriter returns a writer that writes to raw.
func NewWriter(raw io.Writer) *Writer { return &Writer{raw: raw} }

// Raw returns the writer below a [Writer], and any other writer itself. The output of the user's own
// program goes there, and control sequences of the command line.
func Raw(w io.Writer) io.Writer {
	if escaping, ok := w.(*Writer); ok {
		return escaping.raw
	}
	return w
}

// Write implements io.Writer.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	whole := append(w.partial, text...)
	end := len(whole) - incomplete(whole)
	w.partial = append([]byte(nil), whole[end:]...)
	if _, err := w.raw.Write(appendEscaped(nil, whole[:end], allowed)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Close writes the incomplete character that the text ends with, escaped. It leaves the writer
// below open.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.raw.Write(appendEscaped(nil, w.partial, allowed))
	w.partial = nil
	return err
}

// incomplete returns the number of bytes at the end of text that begin a character.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
