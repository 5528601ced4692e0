package main

import (
	"slices"
	"strings"

	"portolan.dev/kubeapi/internal/resource"
)

// methods are the HTTP methods of the paths that are served, in lower case.
type methods map[string][]string

// verbs has the method of each verb, and whether its path names an object.
var verbs = map[string]struct {
	method string
	object bool
}{
	"get": {"get", true}, "list": {"get", false}, "create": {"post", false}, "update": {"put", true}, "patch": {"patch", true},
	"delete": {"delete", true}, "deletecollection": {"delete", false},
}

// served returns the methods of all paths of resources, and of the documents of discovery.
func served() methods {
	all := methods{"/api/": {"get"}, "/apis/": {"get"}, "/version/": {"get"}}
	for _, r := range resource.All {
		version := versionPath(r)
		all[version+"/"] = []string{"get"}
		if group, _, ok := strings.Cut(strings.TrimPrefix(version, "/apis/"), "/"); ok && r.Kind.Group != "" {
			all["/apis/"+group+"/"] = []string{"get"}
		}
		all.addResource(version, r)
	}
	return all
}

// versionPath returns the path of the version of a resource.
func versionPath(r *resource.Resource) string {
	if r.Kind.Group == "" {
		return "/api/" + r.Kind.Version
	}
	return "/apis/" + r.GroupVersion().String()
}

func (m methods) addResource(version string, r *resource.Resource) {
	collection := version + "/" + r.Plural
	if r.Namespaced {
		if slices.Contains(r.Verbs(), "list") {
			m[collection] = []string{"get"} // a list of all namespaces
		}
		collection = version + "/namespaces/{namespace}/" + r.Plural
	}
	add := func(path string, names []string) {
		for _, name := range names {
			verb, ok := verbs[name]
			if !ok {
				continue // a watch is a list with a parameter
			}
			at := path
			if verb.object && path == collection {
				at += "/{name}"
			}
			m[at] = append(m[at], verb.method)
		}
	}
	add(collection, r.Verbs())
	for sub, names := range r.Subresources() {
		add(collection+"/{name}/"+sub, names)
	}
}
