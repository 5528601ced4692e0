package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"portolan.dev/services/object"
)

// Lost returns the fields of an object of Kubernetes that Portolan does not have, as paths with "[*]"
// for the items of lists. to is the object that it was converted to.
func (c *Codec) Lost(from Object, to object.Object) []string {
	before, after := treeOf(from), treeOf(c.Write(to))
	kept, lost := map[string]bool{}, map[string]bool{}
	visit(after, "", func(path string, _ any) bool { kept[path] = true; return true })
	visit(before, "", func(path string, value any) bool {
		if !kept[path] && !isEmpty(value) && !strings.HasPrefix(path, "metadata.managedFields") && !written(path) {
			lost[path] = true
		}
		return kept[path]
	})
	return slices.Sorted(maps.Keys(lost))
}

// written reports whether a field has a value that Portolan makes from others.
func written(path string) bool {
	return path == "metadata.resourceVersion" || strings.HasPrefix(path, "metadata.annotations.portolan.dev/")
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

// isEmpty reports whether a value of a JSON tree is the same as none.
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
