package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text without line breaks and tabs, which are replaced by their escapes as other
// invisible characters are.
func Line(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }) < 0 {
		return text
	}
	return string(appendEscaped(nil, []byte(text), unicode.IsGraphic))
}

// IsSafe reports whether text can be printed as it is.
func IsSafe(text []byte) bool {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 || !allowed(r) {
			return false
		}
		text = text[size:]
	}
	return true
}

// allowed reports whether a character of a document is printed as it is. The category Cf, which is
// not graphic, has the characters that change the direction of text and those without width.
func allowed(r rune) bool { return r == '\n' || r == '\t' || unicode.IsGraphic(r) }

// appendEscaped appends text to out, with the escapes of all characters that keep refuses. Bytes
// that are no UTF-8 are escaped, because some terminals take 0x9b for the beginning of a sequence.
func appendEscaped(out, text []byte, keep func(rune) bool) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case keep(r):
			out = append(out, text[:size]...)
		default:
			out = appendEscape(out, r)
		}
		text = text[size:]
	}
	return out
}

// appendEscape appends the escape of a character in JSON.
func appendEscape(out []byte, r rune) []byte {
	switch r {
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	for _, unit := range utf16.AppendRune(nil, r) {
		out = fmt.Appendf(out, `\u%04x`, unit)
	}
	return out
}
