package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/nearest"
	"portolan.dev/services/kube"
)

// checker checks a tree against a type of Kubernetes. It collects all mistakes. It corrects in
// place two mistakes that older documents contain: keys in another case, and annotations without
// quotes.
type checker struct {
	problems Problems
	warnings []string
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
	quantity    = reflect.TypeFor[resource.Quantity]()
)

func (s *checker) wrong(at *node, path, format string, args ...any) {
	s.wrongAt(at.line, at.column, path, format, args...)
}

func (s *checker) wrongAt(line, column int, path, format string, args ...any) {
	s.problems = append(s.problems, Problem{Line: line, Column: column, Violation: apierr.Violation{
		Field: path, Reason: apierr.ReasonInvalid, Message: fmt.Sprintf(format, args...),
	}})
}

func (s *checker) warn(at *node, path, format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf("line %d: %s: %s", at.line, path, fmt.Sprintf(format, args...)))
}

func (s *checker) check(n *node, t reflect.Type, path string) {
	if n.kind == null {
		return
	}
	if t.Kind() == reflect.Pointer {
		s.check(n, t.Elem(), path)
		return
	}
	switch {
	case t == intOrString:
		s.expect(n, path, "a number or the name of a port", text, number)
	case t == quantity:
		s.checkQuantity(n, path)
	case reflect.PointerTo(t).Implements(unmarshaler):
		s.checkCustom(n, t, path)
	case t.Kind() == reflect.Struct:
		s.checkStruct(n, t, path)
	case t.Kind() == reflect.Map:
		s.checkMap(n, t, path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		if s.expect(n, path, "a list", sequence) {
			for i, item := range n.items {
				s.check(item, t.Elem(), indexed(path, i))
			}
		}
	default:
		s.checkScalar(n, t, path)
	}
}

func (s *checker) expect(n *node, path, want string, kinds ...kind) bool {
	if slices.Contains(kinds, n.kind) {
		return true
	}
	s.wrong(n, path, "must be %s, not %s", want, n.describe())
	return false
}

// checkCustom checks a value by a type that decodes itself, such as a time.
func (s *checker) checkCustom(n *node, t reflect.Type, path string) {
	data, err := json.Marshal(n)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		s.wrong(n, path, "%s", err)
	}
}

func (s *checker) checkQuantity(n *node, path string) {
	const want = "a quantity such as 2, 500m or 64Mi"
	if s.expect(n, path, want, text, number) && !kube.ValidQuantity(strings.TrimSpace(n.value)) {
		s.wrong(n, path, "must be %s, not %q", want, strings.TrimSpace(n.value))
	}
}

func (s *checker) checkStruct(n *node, t reflect.Type, path string) {
	if !s.expect(n, path, "an object", mapping) {
		return
	}
	fields := fieldsOf(t)
	seen := map[string]int{}
	for i := range n.pairs {
		p := &n.pairs[i]
		field, ok := fields.exact[p.key]
		if !ok {
			if field, ok = fields.folded[strings.ToLower(p.key)]; ok {
				s.warn(p.value, join(path, p.key), "is spelled %s", field.name)
				p.key = field.name
			}
		}
		where := join(path, p.key)
		if !ok {
			s.wrongAt(p.line, p.column, where, "unknown field%s", suggest(p.key, fields.exact))
			continue
		}
		if first, twice := seen[p.key]; twice {
			s.wrongAt(p.line, p.column, where, "is given twice, first on line %d", first)
			continue
		}
		seen[p.key] = p.line
		s.check(p.value, field.typ, where)
	}
}

func (s *checker) checkMap(n *node, t reflect.Type, path string) {
	if !s.expect(n, path, "an object", mapping) {
		return
	}
	seen := map[string]int{}
	for _, p := range n.pairs {
		where := fmt.Sprintf("%s[%s]", path, p.key)
		if first, twice := seen[p.key]; twice {
			s.wrongAt(p.line, p.column, where, "is given twice, first on line %d", first)
		}
		seen[p.key] = p.line
		if path == "metadata.annotations" && (p.value.kind == boolean || p.value.kind == number) {
			s.warn(p.value, where, "taken as the text %q; put it in quotes", p.value.value)
			p.value.kind = text
		}
		s.check(p.value, t.Elem(), where)
	}
}

func (s *checker) checkScalar(n *node, t reflect.Type, path string) {
	switch t.Kind() {
	case reflect.String, reflect.Slice: // a slice of bytes is written as text
		if n.kind == number || n.kind == boolean {
			s.wrong(n, path, "must be a text, not %s; put it in quotes", n.describe())
			return
		}
		s.expect(n, path, "a text", text)
	case reflect.Bool:
		if value, ok := yamlBooleans[strings.ToLower(n.value)]; ok && n.kind == text && n.plain {
			n.kind, n.value = boolean, value
		}
		s.expect(n, path, "true or false", boolean)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		if s.expect(n, path, "a whole number", number) {
			s.checkInteger(n, t, path)
		}
	case reflect.Float32, reflect.Float64:
		s.expect(n, path, "a number", number)
	}
}

// yamlBooleans are the other words of YAML 1.1 for true and false, which Kubernetes' tools accept.
var yamlBooleans = map[string]string{
	"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false",
}

func (s *checker) checkInteger(n *node, t reflect.Type, path string) {
	width := int(t.Size()) * 8
	if value, err := strconv.ParseFloat(n.value, 64); err == nil && strings.ContainsAny(n.value, ".eE") && value == float64(int64(value)) {
		n.value = strconv.FormatInt(int64(value), 10)
	}
	_, err := strconv.ParseInt(n.value, 10, min(width, bits.UintSize))
	if err != nil {
		s.wrong(n, path, "must be a whole number of %d bits, not %s", width, n.value)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

type field struct {
	name string
	typ  reflect.Type
}

type fields struct {
	exact  map[string]field
	folded map[string]field // by lower-case name
}

// fieldCache holds fields by reflect.Type.
var fieldCache sync.Map

func fieldsOf(t reflect.Type) fields {
	if known, ok := fieldCache.Load(t); ok {
		return known.(fields)
	}
	found := fields{map[string]field{}, map[string]field{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			inlined := fieldsOf(f.Type)
			maps.Copy(found.exact, inlined.exact)
			maps.Copy(found.folded, inlined.folded)
		case name != "":
			found.exact[name] = field{name, f.Type}
			found.folded[strings.ToLower(name)] = field{name, f.Type}
		}
	}
	fieldCache.Store(t, found)
	return found
}

// suggest names the known field that was probably meant.
func suggest(name string, known map[string]field) string {
	near := nearest.Name(name, slices.Collect(maps.Keys(known)))
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}
