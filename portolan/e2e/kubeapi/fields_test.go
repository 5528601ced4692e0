package kubeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// answerFields are the fields of an answer, by their paths, as JSON. The code and the headers have paths
// that begin with "HTTP ".
type answerFields map[string]string

var digits = regexp.MustCompile(`\d+`)

// paths returns the paths in order: the code first, and the items of lists by their numbers.
func (f answerFields) paths() []string {
	key := func(path string) string {
		if strings.HasPrefix(path, "HTTP ") {
			path = " " + path
		}
		return digits.ReplaceAllStringFunc(path, func(number string) string { return fmt.Sprintf("%6s", number) })
	}
	return slices.SortedFunc(maps.Keys(f), func(a, b string) int { return strings.Compare(key(a), key(b)) })
}

// add adds the fields of a tree below a path. Managed fields are left out, because their order says
// nothing: showOwners keeps them.
func (f answerFields) add(path string, tree any) {
	switch node := tree.(type) {
	case map[string]any:
		for name, value := range node {
			if name != "managedFields" {
				f.add(strings.TrimPrefix(path+"."+name, "."), value)
			}
		}
		if len(node) > 0 {
			return
		}
	case []any:
		for i, item := range node {
			f.add(fmt.Sprintf("%s[%d]", path, i), item)
		}
		if len(node) > 0 {
			return
		}
	}
	f[path] = inJSON(tree)
}

func inJSON(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // impossible: it was JSON
	}
	return strings.TrimSpace(out.String())
}

// keep keeps the items with one of the values in the field, and removes all others, in the lists at a path
// such as items[*].resources.
func keep(tree any, path []string, field string, values []string) {
	node, ok := tree.(map[string]any)
	if !ok {
		return
	}
	name, each := strings.CutSuffix(path[0], "[*]")
	list, ok := node[name].([]any)
	if !ok {
		return
	}
	if each {
		for _, item := range list {
			keep(item, path[1:], field, values)
		}
		return
	}
	node[name] = slices.DeleteFunc(list, func(item any) bool {
		text, _ := at(item, field).(string)
		return !slices.Contains(values, text)
	})
}

// at returns the value at a path of names. Numbers are positions in lists.
func at(tree any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[name]
		case []any:
			var i int
			if _, err := fmt.Sscanf(name, "%d", &i); err != nil || i >= len(node) {
				return nil
			}
			tree = node[i]
		default:
			return nil
		}
	}
	return tree
}

// showOwners gives an object the field metadata.owners, which has the managed fields by their manager,
// operation and subresource.
func showOwners(tree any) {
	meta, _ := at(tree, "metadata").(map[string]any)
	entries, ok := meta["managedFields"].([]any)
	if !ok {
		return
	}
	owners := map[string]any{}
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		var names []string
		for _, field := range []string{"manager", "operation", "subresource"} {
			if text, ok := fields[field].(string); ok {
				names = append(names, text)
			}
			delete(fields, field)
		}
		owners[strings.Join(names, " ")] = fields
	}
	meta["owners"] = owners
}

// sortItems sorts the items of a list by fields.
func sortItems(tree any, path string, fields []string) {
	list, _ := at(tree, path).([]any)
	key := func(item any) (texts []string) {
		for _, field := range fields {
			texts = append(texts, inJSON(at(item, field)))
		}
		return texts
	}
	slices.SortFunc(list, func(a, b any) int { return slices.Compare(key(a), key(b)) })
}
