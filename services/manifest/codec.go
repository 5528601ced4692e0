package manifest

import (
	"encoding/json"
	"reflect"
	"strings"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
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

// kubernetes returns the codec of a kind that Kubernetes has.
func kubernetes(k *kube.Codec) codec {
	return codec{
		apiVersion: k.GroupVersionKind.GroupVersion().String(), kind: k.Kind.Name,
		decode: func(n *node) (object.Object, []string, Problems) { return decodeTyped(n, k) },
		encode: func(o object.Object) (any, error) { return generic(writeTyped(k, o)) },
	}
}

// writeTyped converts an object to the Kubernetes type, without the owners of its fields, because
// manifests do not show them.
func writeTyped(k *kube.Codec, o object.Object) kube.Object {
	typed := k.Write(o)
	typed.SetManagedFields(nil)
	return typed
}

// alsoReads returns the codec with an older version that it can read, too.
func (c codec) alsoReads(apiVersion string, upgrade func(n *node)) codec {
	c.older = map[string]func(*node){apiVersion: upgrade}
	return c
}

// decodeTyped decodes the tree into the Kubernetes type and converts the result.
func decodeTyped(n *node, k *kube.Codec) (object.Object, []string, Problems) {
	var s checker
	typed := k.New()
	s.check(n, reflect.TypeOf(typed), "")
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
	o, violations := k.Read(typed, messages)
	if len(violations) > 0 {
		return nil, nil, problemsIn(n, violations)
	}
	return o, append(s.warnings, lossWarnings(typed, writeTyped(k, o))...), nil
}

// messages are the texts of violations for the author of a manifest.
var messages = &kube.Messages{
	Supported: func(words []string) string { return "supported are " + strings.Join(words, ", ") },
	Version:   "must be the number that Portolan gave; leave it out to change the object whatever it is now",
}

// lossWarnings returns a warning that names the fields of a document that its object lacks.
func lossWarnings(document, object any) []string {
	if lost := lostFields(document, object); len(lost) > 0 {
		return []string{"dropped, as Portolan has no use for it: " + strings.Join(lost, ", ")}
	}
	return nil
}

// problemsIn returns violations with their positions in a document.
func problemsIn(n *node, violations apierr.Violations) Problems {
	var problems Problems
	for _, violation := range violations {
		at := n.locate(violation.Field)
		problems = append(problems, Problem{Line: at.line, Column: at.column, Violation: violation})
	}
	return problems
}
