package jsonline

import "unicode/utf8"

// AppendString appends text as a JSON string, with its quotes. Bytes that are not UTF-8 become
// U+FFFD. A text of more than limit bytes is cut there, and ends in three dots.
func AppendString(line []byte, text string, limit int) []byte {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	line = append(line, '"')
	for len(text) > 0 {
		plain := 0
		for plain < len(text) && isPlain(text[plain]) {
			plain++
		}
		line, text = append(line, text[:plain]...), text[plain:]
		if text == "" {
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		if r == '"' || r == '\\' {
			line = append(line, '\\', byte(r))
		} else {
			line = appendEscaped(line, r)
		}
		text = text[size:]
	}
	if cut {
		line = append(line, "..."...)
	}
	return append(line, '"')
}

// isPlain reports whether a JSON string in printable ASCII has the byte as it is.
func isPlain(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// appendEscaped appends a character as \uXXXX, or as two of them if it needs a surrogate pair.
func appendEscaped(line []byte, r rune) []byte {
	const firstPair, high, low = 0x10000, 0xd800, 0xdc00
	if r >= firstPair {
		r -= firstPair
		return appendEscaped(appendEscaped(line, high+r>>10), low+r&0x3ff)
	}
	const digits = "0123456789abcdef"
	return append(line, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
