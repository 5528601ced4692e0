package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"portolan.dev/services/object"
)

// FieldSelector selects objects of one kind by the values of a few fields. The zero value selects
// all objects.
type FieldSelector struct{ terms []fieldTerm }

// Fields are the fields by which objects of a kind can be selected: functions that read the value,
// by path.
type Fields map[string]func(object.Object) string

type fieldTerm struct {
	read  func(object.Object) string
	value string
	equal bool
}

// ParseFieldSelector parses a list of terms "field=value", "field==value" and "field!=value",
// separated by commas. An object must satisfy all terms. In a value a backslash escapes ',', '='
// and itself. fields are the fields of the kind that a selector can name.
func ParseFieldSelector(kind string, fields Fields, text string) (FieldSelector, error) {
	var selector FieldSelector
	for _, term := range splitEscaped(text) {
		if strings.TrimSpace(term) == "" {
			continue
		}
		name, value, equal, ok := cutFieldTerm(term)
		if !ok {
			return FieldSelector{}, fmt.Errorf("field selector %q: term %q has none of =, ==, !=", truncate(text), truncate(term))
		}
		read, ok := fields[name]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			return FieldSelector{}, fmt.Errorf("field selector %q: objects of kind %s cannot be selected by %q, but by %s", truncate(text), kind, truncate(name), known)
		}
		selector.terms = append(selector.terms, fieldTerm{read, value, equal})
	}
	return selector, nil
}

// Empty reports whether the selector selects all objects.
func (s FieldSelector) Empty() bool { return len(s.terms) == 0 }

// Matches reports whether the selector selects the object, which must be of the selector's kind.
func (s FieldSelector) Matches(o object.Object) bool {
	for _, term := range s.terms {
		if (term.read(o) == term.value) != term.equal {
			return false
		}
	}
	return true
}

// splitEscaped splits a text at the commas that are not escaped. It keeps the backslashes.
func splitEscaped(text string) []string {
	var terms []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ',':
			terms = append(terms, text[start:i])
			start = i + 1
		}
	}
	return append(terms, text[start:])
}

func cutFieldTerm(term string) (name, value string, equal, ok bool) {
	name, value, ok = strings.Cut(term, "=")
	if !ok {
		return "", "", false, false
	}
	equal = true
	if strings.HasSuffix(name, "!") {
		name, equal = strings.TrimSuffix(name, "!"), false
	} else {
		value = strings.TrimPrefix(value, "=")
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\,`, `,`, `\=`, `=`)
	return strings.TrimSpace(name), unescape.Replace(strings.TrimSpace(value)), equal, true
}
