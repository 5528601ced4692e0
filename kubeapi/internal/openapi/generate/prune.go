package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"portolan.dev/kubeapi/internal/resource"
)

// unread lists the parameters that kubeapi does not read.
var unread = []string{"orphanDependents", "ignoreStoreReadErrorWithClusterBreakingPotential", "shardSelector"}

// inlineParameters replaces references to parameters that several operations of OpenAPI v2 share by the
// parameters themselves, because older clients do not follow references: kubectl 1.20 would conclude that no dry
// run is possible.
func (d document) inlineParameters() {
	shared, _ := d["parameters"].(map[string]any)
	delete(d, "parameters")
	visit(d, func(object map[string]any) {
		list, _ := object["parameters"].([]any)
		for i, parameter := range list {
			if ref, ok := refOf(parameter); ok {
				list[i] = maps.Clone(shared[strings.TrimPrefix(ref, "#/parameters/")].(map[string]any))
			}
		}
	})
}

// prune removes the paths, verbs, parameters and definitions that kubeapi does not serve. definitions is
// the path of the definitions in the document.
func (d document) prune(version string, all methods, definitions string) error {
	d["info"] = map[string]any{"title": "Kubernetes", "version": version}
	paths, _ := d["paths"].(map[string]any)
	for path, item := range paths {
		item := item.(map[string]any)
		for _, method := range []string{"get", "put", "post", "delete", "patch", "options", "head"} {
			if !slices.Contains(all[path], method) {
				delete(item, method)
			}
		}
		if len(all[path]) == 0 {
			delete(paths, path)
		}
	}
	if len(paths) == 0 {
		return fmt.Errorf("no path is served")
	}
	visit(d, withoutUnread)
	visit(d, withoutCBOR)
	d.pruneDefinitions(definitions)
	return nil
}

// withoutUnread removes the parameters that kubeapi does not read.
func withoutUnread(object map[string]any) {
	if list, ok := object["parameters"].([]any); ok {
		object["parameters"] = slices.DeleteFunc(list, func(parameter any) bool {
			name, _ := parameter.(map[string]any)["name"].(string)
			return slices.Contains(unread, name)
		})
	}
}

// withoutCBOR removes the encoding CBOR, which kubeapi does not serve.
func withoutCBOR(object map[string]any) {
	for _, key := range []string{"consumes", "produces"} { // OpenAPI v2
		if list, ok := object[key].([]any); ok {
			object[key] = slices.DeleteFunc(list, func(media any) bool { return strings.Contains(media.(string), "cbor") })
		}
	}
	if content, ok := object["content"].(map[string]any); ok { // OpenAPI v3
		maps.DeleteFunc(content, func(media string, _ any) bool { return strings.Contains(media, "cbor") })
	}
}

// pruneDefinitions removes the definitions that the paths do not reach.
func (d document) pruneDefinitions(place string) {
	holder := map[string]any(d)
	parts := strings.Split(strings.Trim(place, "/"), "/")
	for _, part := range parts[:len(parts)-1] {
		holder, _ = holder[part].(map[string]any)
	}
	key := parts[len(parts)-1]
	present, _ := holder[key].(map[string]any)
	reached := map[string]any{}
	var reach func(any)
	reach = func(value any) {
		visit(value, func(object map[string]any) {
			ref, _ := refOf(object)
			name, ok := strings.CutPrefix(ref, "#"+place)
			if _, known := reached[name]; !ok || known {
				return
			}
			reached[name] = present[name]
			reach(present[name])
		})
	}
	reach(d["paths"])
	for _, definition := range reached {
		describe(definition.(map[string]any))
	}
	if present != nil {
		holder[key] = reached
	}
}

// describe adds to the description of a kind that Portolan drops some fields, or has no such objects.
func describe(definition map[string]any) {
	kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
	if len(kinds) != 1 {
		return
	}
	names, text := kinds[0].(map[string]any), definition["description"]
	for _, r := range resource.All {
		if r.Kind != (schema.GroupVersionKind{Group: names["group"].(string), Version: names["version"].(string), Kind: names["kind"].(string)}) {
			continue
		}
		switch {
		case r.IsReview():
		case r.Codec == nil:
			definition["description"] = fmt.Sprintf("%s Portolan has no objects of this kind: lists are empty, and it cannot be written.", text)
		default:
			definition["description"] = fmt.Sprintf("%s Portolan drops fields that it does not have, with a warning.", text)
		}
	}
}

func refOf(value any) (string, bool) {
	object, _ := value.(map[string]any)
	ref, ok := object["$ref"].(string)
	return ref, ok
}

// visit calls a function for all objects in a value.
func visit(value any, do func(map[string]any)) {
	switch value := value.(type) {
	case document:
		visit(map[string]any(value), do)
	case map[string]any:
		do(value)
		for _, inner := range value {
			visit(inner, do)
		}
	case []any:
		for _, inner := range value {
			visit(inner, do)
		}
	}
}
