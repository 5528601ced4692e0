package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"portolan.dev/services/kit/apierr"
)

// Bounds of a document. Manifests are far smaller, but nested YAML aliases can exceed them.
const (
	maxDepth = 100
	maxNodes = 1 << 20
)

type kind int

const (
	null kind = iota
	mapping
	sequence
	text
	number
	boolean
)

// node is a value of a YAML or JSON document with its position.
type node struct {
	kind         kind
	value        string // the text; for numbers and booleans their spelling in JSON
	plain        bool   // text without quotes, which may be a boolean of YAML 1.1
	pairs        []pair
	items        []*node
	line, column int
}

type pair struct {
	key          string
	value        *node
	line, column int
}

// get returns the last value of a key.
func (n *node) get(key string) *node {
	for i := len(n.pairs) - 1; i >= 0; i-- {
		if n.pairs[i].key == key {
			return n.pairs[i].value
		}
	}
	return nil
}

// textOf returns the text of a key, or "" if it is absent or no text.
func (n *node) textOf(key string) string {
	if value := n.get(key); value != nil && value.kind == text {
		return value.value
	}
	return ""
}

// locate returns the node of a field path such as "spec.ports[0].nodePort", or the nearest existing
// node above it.
func (n *node) locate(path string) *node {
	for path != "" {
		var step string
		switch {
		case path[0] == '[':
			step, path, _ = strings.Cut(path[1:], "]")
			if i, err := strconv.Atoi(step); err == nil && n.kind == sequence {
				if i >= len(n.items) {
					return n
				}
				n = n.items[i]
				continue
			}
		case path[0] == '.':
			path = path[1:]
			continue
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			step, path = path[:end], path[end:]
		}
		value := n.get(step)
		if value == nil {
			return n
		}
		n = value
	}
	return n
}

// MarshalJSON writes the tree as JSON, which the types decode.
func (n *node) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes(), nil
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case mapping:
		b.WriteByte('{')
		for i, p := range n.pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, p.key)
			b.WriteByte(':')
			p.value.write(b)
		}
		b.WriteByte('}')
	case sequence:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case text:
		writeText(b, n.value)
	case number, boolean:
		b.WriteString(n.value)
	default:
		b.WriteString("null")
	}
}

func writeText(b *bytes.Buffer, s string) {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // impossible: a string always has a JSON form
	}
	b.Write(quoted)
}

// describe names a value in a message.
func (n *node) describe() string {
	switch n.kind {
	case mapping:
		return "an object"
	case sequence:
		return "a list"
	case text:
		return "the text " + strconv.Quote(clip(n.value))
	case number:
		return "the number " + n.value
	case boolean:
		return "the boolean " + n.value
	default:
		return "null"
	}
}

func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// malformed returns a problem in the text itself.
func malformed(line, column int, format string, args ...any) *Problem {
	return &Problem{
		Line: max(line, 1), Column: max(column, 1),
		Violation: apierr.Violation{Reason: apierr.ReasonInvalid, Message: fmt.Sprintf(format, args...)},
	}
}
