package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// readJSON reads every document of a chunk of JSON.
func readJSON(source []byte) ([]*node, *Problem) {
	r := jsonReader{source: source, decoder: json.NewDecoder(bytes.NewReader(source))}
	r.decoder.UseNumber()
	var documents []*node
	for {
		document, problem := r.read(0)
		if problem != nil {
			return documents, problem
		}
		if document == nil {
			return documents, nil
		}
		documents = append(documents, document)
	}
}

type jsonReader struct {
	source  []byte
	decoder *json.Decoder
	nodes   int
	token   json.Token
	offset  int // start of the token

	counted, lines, lineStart int // see position
}

// next reads a token. At the end of the text the token is nil and the offset is the end.
func (r *jsonReader) next() *Problem {
	r.offset = int(r.decoder.InputOffset())
	for r.offset < len(r.source) && bytes.IndexByte([]byte(" \t\r\n,:"), r.source[r.offset]) >= 0 {
		r.offset++
	}
	token, err := r.decoder.Token()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		r.token = token
		return nil
	case errors.As(err, &syntax):
		return r.malformed(max(int(syntax.Offset)-1, r.offset), "malformed JSON: %s", syntax)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		r.token, r.offset = nil, len(r.source)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return r.malformed(r.offset, "malformed JSON: unexpected end")
		}
		return nil
	default:
		return r.malformed(r.offset, "malformed JSON: %s", err)
	}
}

// read reads the next value. It returns nil at the end of the text.
func (r *jsonReader) read(depth int) (*node, *Problem) {
	if problem := r.next(); problem != nil {
		return nil, problem
	}
	if r.offset >= len(r.source) && r.token == nil {
		if depth > 0 {
			return nil, r.malformed(r.offset, "malformed JSON: unexpected end")
		}
		return nil, nil
	}
	return r.value(depth)
}

// value reads the value that starts with the token.
func (r *jsonReader) value(depth int) (*node, *Problem) {
	if r.nodes++; depth > maxDepth || r.nodes > maxNodes {
		return nil, r.malformed(r.offset, "nested more than %d levels deep, or more than %d values", maxDepth, maxNodes)
	}
	n := &node{}
	n.line, n.column = r.position(r.offset)
	switch token := r.token.(type) {
	case json.Delim:
		if token == '{' {
			n.kind = mapping
			return n, r.pairs(n, depth)
		}
		n.kind = sequence
		return n, r.items(n, depth)
	case string:
		n.kind, n.value = text, token
	case json.Number:
		n.kind, n.value = number, token.String()
	case bool:
		n.kind, n.value = boolean, strconv.FormatBool(token)
	}
	return n, nil
}

func (r *jsonReader) pairs(n *node, depth int) *Problem {
	for {
		if problem := r.next(); problem != nil {
			return problem
		}
		key, ok := r.token.(string)
		if !ok { // the closing brace, or the end
			return r.unlessClosed('}')
		}
		line, column := r.position(r.offset)
		value, problem := r.read(depth + 1)
		if problem != nil {
			return problem
		}
		n.pairs = append(n.pairs, pair{key, value, line, column})
	}
}

func (r *jsonReader) items(n *node, depth int) *Problem {
	for {
		if problem := r.next(); problem != nil {
			return problem
		}
		if r.token == json.Delim(']') || (r.token == nil && r.offset >= len(r.source)) {
			return r.unlessClosed(']')
		}
		item, problem := r.value(depth + 1)
		if problem != nil {
			return problem
		}
		n.items = append(n.items, item)
	}
}

func (r *jsonReader) unlessClosed(closing json.Delim) *Problem {
	if r.token != closing {
		return r.malformed(r.offset, "malformed JSON: unexpected end, %q is missing", closing.String())
	}
	return nil
}

func (r *jsonReader) malformed(offset int, format string, args ...any) *Problem {
	line, column := r.position(offset)
	return malformed(line, column, format, args...)
}

// position returns the line and column of an offset. It continues from the last offset, because
// offsets usually grow.
func (r *jsonReader) position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(r.source))
	if offset < r.counted {
		r.counted, r.lines, r.lineStart = 0, 0, 0
	}
	between := r.source[r.counted:offset]
	r.lines += bytes.Count(between, []byte("\n"))
	if last := bytes.LastIndexByte(between, '\n'); last >= 0 {
		r.lineStart = r.counted + last + 1
	}
	r.counted = offset
	return r.lines + 1, offset - r.lineStart + 1
}
