package manifest

import (
	"bytes"
	"unicode/utf8"
)

// chunk is the text of one document of a stream, or of several documents that only their parser can
// separate.
type chunk struct {
	text   []byte
	offset int // number of lines of the stream before it
}

var byteOrderMark = []byte("\ufeff")

// split cuts a stream at its lines of "---". A chunk keeps that line, so that text after the dashes
// keeps its position. Chunks without content, or with directives only, are left out.
func split(stream []byte) []chunk {
	stream = bytes.TrimPrefix(stream, byteOrderMark)
	var chunks []chunk
	start, startLine, line := 0, 0, 0
	flush := func(end int) {
		if text := stream[start:end]; hasContent(text) {
			chunks = append(chunks, chunk{text, startLine})
		}
		start, startLine = end, line
	}
	for position := 0; position < len(stream); line++ {
		if isSeparator(stream[position:]) {
			flush(position)
		}
		end := bytes.IndexByte(stream[position:], '\n')
		if end < 0 {
			break
		}
		position += end + 1
	}
	flush(len(stream))
	return chunks
}

func isSeparator(rest []byte) bool {
	if !bytes.HasPrefix(rest, []byte("---")) {
		return false
	}
	return len(rest) == 3 || bytes.IndexByte([]byte(" \t\r\n"), rest[3]) >= 0
}

func hasContent(text []byte) bool {
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if isSeparator(line) {
			line = bytes.TrimSpace(line[3:])
		}
		if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("...")) {
			return true
		}
	}
	return false
}

// checkText returns a problem if the stream is not UTF-8, because strings in the API must be.
func checkText(stream []byte) *Problem {
	if utf8.Valid(stream) {
		return nil
	}
	line, column := 1, 1
	for len(stream) > 0 {
		r, size := utf8.DecodeRune(stream)
		switch {
		case r == utf8.RuneError && size == 1:
			return malformed(line, column, "this is not UTF-8")
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		stream = stream[size:]
	}
	return nil
}
