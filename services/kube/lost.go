package kube

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"portolan.dev/services/object"
)

// Lost returns the fields of an object of Kubernetes that Portolan does not have, as [LostFields] does.
// to is the object that from was converted to.
func (c *Codec) Lost(from Object, to object.Object) []string {
	return LostFields(treeOf(from), treeOf(c.Write(to)), func(path string, value any) bool {
		return isEmpty(value) || path == "metadata.resourceVersion" || strings.HasPrefix(path, "metadata.managedFields") || IsAnnotationPath(path)
	})
}

// IsAnnotationPath reports whether a path of [LostFields] is an annotation under portolan.dev, which
// Portolan stores as a field, or the map of all annotations, of which no others are lost.
func IsAnnotationPath(path string) bool {
	return path == "metadata.annotations" || strings.HasPrefix(path, "metadata.annotations.portolan.dev/")
}

// LostFields returns the paths of the fields that one JSON tree has and the other lacks, with "[*]" for
// the items of lists. It leaves out fields for which ignored returns true, and the fields below a lost one.
func LostFields(before, after any, ignored func(path string, value any) bool) []string {
	kept, lost := map[string]bool{}, map[string]bool{}
	visit(after, "", func(path string, _ any) bool { kept[path] = true; return true })
	visit(before, "", func(path string, value any) bool {
		if !kept[path] && !ignored(path, value) {
			lost[path] = true
		}
		return kept[path]
	})
	return slices.Sorted(maps.Keys(lost))
}

func treeOf(o Object) any {
	text, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return nil
	}
	return tree
}

// isEmpty reports whether a value of a JSON tree means the same as its absence.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value
	case float64:
		return value == 0
	case string:
		return value == ""
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool { return !isEmpty(item) })
	case map[string]any:
		for _, field := range value {
			if !isEmpty(field) {
				return false
			}
		}
		return true
	}
	return false
}

// visit calls f for every field, and descends into a field if f returns true.
func visit(tree any, path string, f func(path string, value any) bool) {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			where := key
			if path != "" {
				where = path + "." + key
			}
			if f(where, value) {
				visit(value, where, f)
			}
		}
	case []any:
		for _, item := range tree {
			visit(item, path+"[*]", f)
		}
	}
}
