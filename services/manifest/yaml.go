package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"gopkg.in/yaml.v3"
)

// readYAML reads every document of a chunk.
func readYAML(source []byte) ([]*node, *Problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	var documents []*node
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return documents, locateYAMLError(source, err)
		}
		reader := yamlReader{}
		document, problem := reader.read(&root, 0)
		if problem != nil {
			return documents, problem
		}
		if document.kind != null {
			documents = append(documents, document)
		}
	}
}

type yamlReader struct{ nodes int }

func (r *yamlReader) read(from *yaml.Node, depth int) (*node, *Problem) {
	r.nodes++
	if depth > maxDepth {
		return nil, malformed(from.Line, from.Column, "nested more than %d levels deep", maxDepth)
	}
	if r.nodes > maxNodes {
		return nil, malformed(from.Line, from.Column, "the document has more than %d values", maxNodes)
	}
	to := &node{line: from.Line, column: from.Column}
	switch from.Kind {
	case yaml.DocumentNode:
		return r.read(from.Content[0], depth)
	case yaml.AliasNode:
		return r.read(from.Alias, depth+1)
	case yaml.MappingNode:
		to.kind = mapping
		return to, r.readPairs(from, to, depth)
	case yaml.SequenceNode:
		to.kind = sequence
		for _, content := range from.Content {
			item, problem := r.read(content, depth+1)
			if problem != nil {
				return nil, problem
			}
			to.items = append(to.items, item)
		}
		return to, nil
	case yaml.ScalarNode:
		return to, readScalar(from, to)
	default: // an empty document
		return to, nil
	}
}

func (r *yamlReader) readPairs(from *yaml.Node, to *node, depth int) *Problem {
	var merged []*node
	for i := 0; i+1 < len(from.Content); i += 2 {
		key := from.Content[i]
		value, problem := r.read(from.Content[i+1], depth+1)
		if problem != nil {
			return problem
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return malformed(key.Line, key.Column, "a key must be a single word")
		case key.ShortTag() == "!!merge" && value.kind == sequence:
			merged = append(merged, value.items...)
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
		default:
			to.pairs = append(to.pairs, pair{key.Value, value, key.Line, key.Column})
		}
	}
	for _, source := range merged {
		if source.kind != mapping {
			return malformed(source.line, source.column, "only objects can be merged with '<<'")
		}
		for _, p := range source.pairs {
			if to.get(p.key) == nil {
				to.pairs = append(to.pairs, p)
			}
		}
	}
	return nil
}

func readScalar(from *yaml.Node, to *node) *Problem {
	to.value = from.Value
	var err error
	switch from.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var value bool
		err = from.Decode(&value)
		to.kind, to.value = boolean, strconv.FormatBool(value)
	case "!!int":
		to.kind = number
		to.value, err = integer(from)
	case "!!float":
		var value float64
		err = from.Decode(&value)
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return malformed(from.Line, from.Column, "%s is no number that JSON knows", from.Value)
		}
		to.kind, to.value = number, strconv.FormatFloat(value, 'g', -1, 64)
	default: // also dates and binary data, because their types decode text
		to.kind, to.plain = text, from.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	}
	if err != nil {
		return malformed(from.Line, from.Column, "%s is no %s", strconv.Quote(clip(from.Value)), strings.TrimPrefix(from.ShortTag(), "!!"))
	}
	return nil
}

func integer(from *yaml.Node) (string, error) {
	var signed int64
	if err := from.Decode(&signed); err == nil {
		return strconv.FormatInt(signed, 10), nil
	}
	var unsigned uint64
	err := from.Decode(&unsigned)
	return strconv.FormatUint(unsigned, 10), err
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// locateYAMLError returns the problem with the position of malformed text. If the second parser
// finds no mistake, it uses the line of the first.
func locateYAMLError(source []byte, err error) *Problem {
	if problem := locateSyntax(source); problem != nil {
		return problem
	}
	line, message := 1, err.Error()
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			line = n
		}
		message = match[2]
	}
	return malformed(line, firstColumn(source, line), "malformed YAML: %s", message)
}

func firstColumn(source []byte, line int) int {
	lines := bytes.Split(source, []byte("\n"))
	if line < 1 || line > len(lines) {
		return 1
	}
	return len(lines[line-1]) - len(bytes.TrimLeft(lines[line-1], " ")) + 1
}

// locateSyntax asks the second parser for the position. It recovers from that parser's panics on
// malformed text.
func locateSyntax(source []byte) (problem *Problem) {
	const largest = 1 << 20
	if len(source) > largest {
		return nil
	}
	defer func() {
		if recover() != nil {
			problem = nil
		}
	}()
	_, err := parser.ParseBytes(source, 0)
	var syntax *goyaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil || syntax.Token.Position == nil {
		return nil
	}
	position := syntax.Token.Position
	return malformed(position.Line, position.Column, "malformed YAML: %s", fmt.Sprint(syntax.Message))
}
