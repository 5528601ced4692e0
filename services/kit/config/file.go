package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"gopkg.in/yaml.v3"
)

// applyFile sets the fields from a YAML file with one key per setting.
func applyFile(fields []*field, path string) []error {
	data, err := os.ReadFile(path)
	if err != nil {
		return []error{fmt.Errorf("config: %w", err)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	if len(doc.Content) == 0 {
		return nil // an empty file sets nothing
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: want key: value lines", path, root.Line)}
	}
	var problems []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		if seen[key.Value] {
			problems = append(problems, fmt.Errorf("%s: key %q is given twice", at, key.Value))
			continue
		}
		seen[key.Value] = true
		if err := applyKey(fields, key.Value, value, at); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

func applyKey(fields []*field, key string, value *yaml.Node, at string) error {
	f := find(fields, key)
	if f == nil {
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.name
		}
		return fmt.Errorf("%s: unknown key %q%s", at, key, didYouMean(key, names, ""))
	}
	text, err := nodeText(value)
	if err != nil {
		return fmt.Errorf("%s (%s): %w", key, at, err)
	}
	return f.set(text, at)
}

// nodeText returns a scalar or a list of scalars in the form of a flag's value. Lists are joined by
// commas, so their items cannot contain commas.
func nodeText(n *yaml.Node) (string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return scalarText(n), nil
	case yaml.SequenceNode:
		items := make([]string, len(n.Content))
		for i, c := range n.Content {
			if c.Kind != yaml.ScalarNode || strings.Contains(c.Value, ",") {
				return "", errors.New("want a list of plain values without commas")
			}
			items[i] = scalarText(c)
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("want a value or a list of values")
}

// scalarText returns the value as written. The result for ~ and null is empty. A value that is not
// UTF-8 is printed as !!binary, so it is read in that form too.
func scalarText(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!null":
		return ""
	case "!!binary":
		var text string
		if n.Decode(&text) == nil {
			return text
		}
	}
	return n.Value
}
