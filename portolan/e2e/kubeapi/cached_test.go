package kubeapi

import (
	"strings"
	"testing"
)

// TestListsOfAnyAge lists from kubeapi's cache. Such a list ignores the limit, as informers expect of
// Kubernetes, and respects selectors as any other list.
func TestListsOfAnyAge(t *testing.T) {
	i := install(t, false)
	for name, label := range map[string]string{"a": "x", "b": "x", "c": "y"} {
		i.must("POST", services, service(name, label))
	}
	i.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	newest := i.must("POST", "/api/v1/namespaces/shop/services", service("d", "x"))
	if a := i.get(services + "?timeoutSeconds=1&watch=1&resourceVersion=" + newest); a.code != 200 { // waits until the cache has all
		t.Fatalf("%+v", a)
	}
	for _, c := range []struct{ path, names string }{
		{services + "?resourceVersion=0", "a b c"},
		{services + "?resourceVersion=0&limit=1", "a b c"},
		{services + "?resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=2", "a b c"},
		{services + "?resourceVersion=0&labelSelector=app%3Dx", "a b"},
		{services + "?resourceVersion=0&fieldSelector=metadata.name%3Dc", "c"},
		{"/api/v1/services?resourceVersion=0&limit=1", "a b c d"},
		{"/api/v1/services?limit=2", "a b"},
		{"/api/v1/configmaps?resourceVersion=0", ""},
	} {
		a := i.get(c.path)
		list, err := a.object(t).ToList()
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.path, err, a.body)
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.GetName())
		}
		if got := strings.Join(names, " "); got != c.names || (list.GetContinue() != "") != (c.names == "a b" && strings.Contains(c.path, "?limit")) {
			t.Errorf("%s: %q, continue %q; want %q", c.path, got, list.GetContinue(), c.names)
		}
	}
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		for _, path := range []string{"/api/v1/services", "/api/v1/namespaces", "/api/v1/pods", "/api/v1/nodes"} {
			fresh := i.get(path, "Accept", accept)
			for range 2 { // the second answer reuses the encoded objects of the first
				if any := i.get(path+"?resourceVersion=0", "Accept", accept); any.code != 200 || any.body != fresh.body || any.header.Get("Content-Type") != fresh.header.Get("Content-Type") {
					t.Errorf("%s as %s: %d\n%q, and the newest\n%q", path, accept, any.code, any.body, fresh.body)
				}
			}
		}
	}
	for _, query := range []string{"?resourceVersion=0&labelSelector=%2C%2C", "?resourceVersion=0&fieldSelector=spec.nothing%3Dx"} {
		if a := i.get(services + query); a.code != 400 {
			t.Errorf("%s: %d %s", query, a.code, a.body)
		}
	}
}
