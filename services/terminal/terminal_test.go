package terminal

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestEscapes checks the escapes of characters that terminals obey, in documents and in lines.
func TestEscapes(t *testing.T) {
	for _, c := range []struct{ what, text, document, line string }{
		{"plain text", "ready: größer 漢字 🚢\u00a0x", "ready: größer 漢字 🚢\u00a0x", "ready: größer 漢字 🚢\u00a0x"},
		{"title", "\x1b]0;owned\a", `\u001b]0;owned\u0007`, `\u001b]0;owned\u0007`},
		{"clear", "\x1b[2J\x1b[H", `\u001b[2J\u001b[H`, `\u001b[2J\u001b[H`},
		{"overwritten line", "bad\rgood", `bad\rgood`, `bad\rgood`},
		{"lines and columns", "a\tb\nc", "a\tb\nc", `a\tb\nc`},
		{"control of 8 bits", "a\u009b2Jb", `a\u009b2Jb`, `a\u009b2Jb`},
		{"no UTF-8", "a\x9b2J\xff", `a\x9b2J\xff`, `a\x9b2J\xff`},
		{"replacement character", "a\ufffdb", "a\ufffdb", "a\ufffdb"},
		{"direction", "a\u202eb\u2066c\u200fd", `a\u202eb\u2066c\u200fd`, `a\u202eb\u2066c\u200fd`},
		{"separators", "a\u2028b\u2029c\u0085d", `a\u2028b\u2029c\u0085d`, `a\u2028b\u2029c\u0085d`},
		{"no width", "a\u200bb\ufeffc\u00add", `a\u200bb\ufeffc\u00add`, `a\u200bb\ufeffc\u00add`},
		{"tag of the second plane", "a\U000e0041b", `a\udb40\udc41b`, `a\udb40\udc41b`},
		{"backspace, deletion, formfeed", "a\bb\x7fc\fd\ve", `a\u0008b\u007fc\u000cd\u000be`, `a\u0008b\u007fc\u000cd\u000be`},
	} {
		if got := write(t, c.text, len(c.text)); got != c.document {
			t.Errorf("%s: a document has %q, want %q", c.what, got, c.document)
		}
		if got := write(t, c.text, 1); got != c.document {
			t.Errorf("%s, byte by byte: a document has %q, want %q", c.what, got, c.document)
		}
		if got := Line(c.text); got != c.line {
			t.Errorf("%s: a line has %q, want %q", c.what, got, c.line)
		}
		if got := IsSafe([]byte(c.text)); got != (c.text == c.document) {
			t.Errorf("%s: safe is %v", c.what, got)
		}
	}
}

// write writes text in pieces to a Writer, and returns the output.
func write(t *testing.T, text string, piece int) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for len(text) > 0 {
		n, err := w.Write([]byte(text[:min(piece, len(text))]))
		if err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzWriter checks that no invisible character is written, that the pieces of the text do not
// matter, and that a document in JSON keeps its content.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b]0;x\a\u202e\U000e0041\x9b", 1)
	f.Add("größer 🚢", 3)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		whole := write(t, text, max(1, len(text)))
		if pieces := write(t, text, 1+max(0, piece)%8); pieces != whole {
			t.Errorf("in pieces %q, whole %q", pieces, whole)
		}
		if !IsSafe([]byte(whole)) || !utf8.ValidString(whole) {
			t.Errorf("%q is written", whole)
		}
		if line := Line(text); strings.IndexFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }) >= 0 {
			t.Errorf("%q is a line", line)
		}
		document, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(document, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(write(t, string(document), len(document))), &after); err != nil || after != before {
			t.Errorf("%q became %q: %v", before, after, err)
		}
	})
}

// TestRaw checks that programs get the file itself, and that errors of the file are returned.
func TestRaw(t *testing.T) {
	if got := Raw(NewWriter(os.Stdout)); got != os.Stdout {
		t.Errorf("%v below a writer", got)
	}
	if got := Raw(os.Stderr); got != os.Stderr {
		t.Errorf("%v for a file", got)
	}
	if _, err := NewWriter(full{}).Write([]byte("x")); err == nil {
		t.Error("the error of the writer below is lost")
	}
}

// full is a writer without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }
