package manifest

import (
	"encoding/json"
	"reflect"
	"strings"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/manifest/kube"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// codec converts the objects of one kind.
type codec struct {
	apiVersion, kind string
	// decode converts the tree of a document. It returns warnings about values that were lost.
	decode func(n *node) (object.Object, []string, Problems)
	// encode returns the tree of a document: maps, slices and scalars.
	encode func(o object.Object) (any, error)
	// older holds the older versions that can be read, each with a function that converts a tree of
	// that version to the present one.
	older map[string]func(n *node)
}

// kubernetes returns the codec of a kind that Kubernetes has, from the functions that convert
// between the two types.
func kubernetes[K any, O object.Object](apiVersion string, in func(*reader, *K) O, out func(O, *K)) codec {
	var zero O
	kind := object.KindOf(zero)
	typeMeta := kube.TypeMeta{APIVersion: apiVersion, Kind: kind}
	write := func(o O) *K {
		typed := new(K)
		reflect.ValueOf(typed).Elem().FieldByName("TypeMeta").Set(reflect.ValueOf(typeMeta))
		out(o, typed)
		return typed
	}
	return codec{
		apiVersion: apiVersion, kind: kind,
		decode: func(n *node) (object.Object, []string, Problems) { return decodeTyped(n, in, write) },
		encode: func(o object.Object) (any, error) { return generic(write(o.(O))) },
	}
}

// alsoReads returns the codec with an older version that it can read, too.
func (c codec) alsoReads(apiVersion string, upgrade func(n *node)) codec {
	c.older = map[string]func(*node){apiVersion: upgrade}
	return c
}

// decodeTyped decodes the tree into the Kubernetes type and converts the result.
func decodeTyped[K any, O object.Object](n *node, in func(*reader, *K) O, write func(O) *K) (object.Object, []string, Problems) {
	var s checker
	typed := new(K)
	s.check(n, reflect.TypeFor[K](), "")
	if len(s.problems) > 0 {
		return nil, nil, s.problems
	}
	data, err := json.Marshal(n)
	if err == nil {
		err = json.Unmarshal(data, typed)
	}
	if err != nil {
		return nil, nil, Problems{*malformed(n.line, n.column, "%s", err)}
	}
	var r reader
	o := in(&r, typed)
	if problems := r.problemsIn(n); len(problems) > 0 {
		return nil, nil, problems
	}
	return o, append(s.warnings, lossWarnings(typed, write(o))...), nil
}

// lossWarnings returns a warning that names the values of a document that its object has not.
func lossWarnings(document, object any) []string {
	if lost := lostFields(document, object); len(lost) > 0 {
		return []string{"dropped, as Portolan has no use for it: " + strings.Join(lost, ", ")}
	}
	return nil
}

// reader converts from Kubernetes' types and collects the values that cannot be converted.
type reader struct{ found apierr.Violations }

// problemsIn returns the violations with their positions in a document.
func (r *reader) problemsIn(n *node) Problems {
	var problems Problems
	for _, violation := range r.found {
		at := n.locate(violation.Field)
		problems = append(problems, Problem{Line: at.line, Column: at.column, Violation: violation})
	}
	return problems
}

// readEnum converts a word to an enum value.
func readEnum[E spec.Enum, W ~string](r *reader, path string, word W) E {
	if word == "" {
		return 0
	}
	value, ok := spec.ParseEnum[E](string(word))
	if !ok {
		r.unsupported(path, string(word), spec.EnumNames[E]())
	}
	return value
}

func (r *reader) unsupported(path, word string, known []string) {
	r.found.Add(path, apierr.ReasonNotSupported, "unsupported value %q: supported are %s", word, strings.Join(known, ", "))
}

func (r *reader) invalid(path, value, why string) {
	r.found.Add(path, apierr.ReasonInvalid, "invalid value %q: %s", value, why)
}

func each[A, B any](from []A, convert func(int, A) B) []B {
	if len(from) == 0 {
		return nil
	}
	to := make([]B, len(from))
	for i := range from {
		to[i] = convert(i, from[i])
	}
	return to
}
