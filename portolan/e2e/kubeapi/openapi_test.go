package kubeapi

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kubediscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
)

// TestOpenAPIOfClients reads the documents as the libraries of clients do: v2 in protobuf, and v3 of every
// version that discovery has.
func TestOpenAPIOfClients(t *testing.T) {
	i := install(t, false)
	client, err := kubediscovery.NewDiscoveryClientForConfig(&rest.Config{Host: i.url})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(whole.GetDefinitions().GetAdditionalProperties()); n < 300 {
		t.Errorf("v2 has %d definitions", n)
	}
	groups, err := client.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	root := openapi3.NewRoot(client.OpenAPIV3())
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			gv, err := schema.ParseGroupVersion(version.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			document, err := root.GVSpec(gv)
			if err != nil || len(document.Components.Schemas) == 0 || len(document.Paths.Paths) == 0 {
				t.Errorf("%s: %v, %v", gv, document, err)
			}
		}
	}
}

// TestOpenAPIOverHTTP checks the headers of the documents for clients and caches: encodings, compression, and
// the time for which they may be kept.
func TestOpenAPIOverHTTP(t *testing.T) {
	i := install(t, true)
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal([]byte(i.get("/openapi/v3").body), &index); err != nil {
		t.Fatal(err)
	}
	address := index.Paths["apis/discovery.k8s.io/v1"].ServerRelativeURL
	const (
		compressed = "Accept-Encoding"
		v3         = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	)
	plain := i.get(address, compressed, "identity")
	if cache := plain.header.Get("Cache-Control"); plain.code != http.StatusOK || cache != "public, immutable" || plain.header.Get("Expires") == "" {
		t.Errorf("%d, %v", plain.code, plain.header)
	}
	squeezed := i.get(address, compressed, "gzip")
	r, err := gzip.NewReader(strings.NewReader(squeezed.body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != plain.body || !json.Valid(text) {
		t.Errorf("the compressed document is another: %v", err)
	}
	for _, c := range []struct {
		path    string
		headers []string
		code    int
		header  string
		want    string
	}{
		{address, []string{"If-None-Match", plain.header.Get("ETag")}, http.StatusNotModified, "ETag", plain.header.Get("ETag")},
		{address, []string{"If-None-Match", `"other", W/` + plain.header.Get("ETag")}, http.StatusNotModified, "ETag", plain.header.Get("ETag")},
		{address, []string{"If-None-Match", `"other"`}, http.StatusOK, "ETag", plain.header.Get("ETag")},
		{address, []string{"Accept", v3, "If-None-Match", plain.header.Get("ETag")}, http.StatusOK, "Content-Type", v3},
		{address, []string{"Accept", strings.Replace(v3, "v3.v1", "v3@v1", 1)}, http.StatusOK, "Content-Type", v3},
		{address, []string{"Accept", "text/html"}, http.StatusNotAcceptable, "Content-Type", "application/json"},
		{address, []string{"Accept", "text/html, */*;q=0.1"}, http.StatusOK, "Content-Type", "application/json"},
		{address, []string{compressed, "br, gzip;q=0"}, http.StatusOK, "Content-Encoding", ""},
		{"/openapi/v3/apis/discovery.k8s.io/v1", nil, http.StatusOK, "Cache-Control", "no-cache, private"},
		{"/openapi/v3/apis/discovery.k8s.io/v1?hash=OLD", nil, http.StatusOK, "Cache-Control", "public, immutable"}, // by a redirect
		{"/openapi/v3/apis/nothing/v1", nil, http.StatusNotFound, "Content-Type", "application/json"},
		{"/openapi/v3/", nil, http.StatusOK, "Content-Type", "application/json"},
		{"/openapi/v2", nil, http.StatusOK, "Content-Type", "application/json"},
		{"/openapi/v2", []string{"Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}, http.StatusOK, "Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"},
	} {
		if a := i.get(c.path, c.headers...); a.code != c.code || a.header.Get(c.header) != c.want {
			t.Errorf("%s %v: %d, %s %q", c.path, c.headers, a.code, c.header, a.header.Get(c.header))
		}
	}
	if a := i.send(http.MethodPost, "/openapi/v2", "{}"); a.code != http.StatusMethodNotAllowed {
		t.Errorf("a post: %d", a.code)
	}
	// Every client of the API may read its description, also without rights to any object.
	if a := i.sendAs(i.as("workload/n1"), http.MethodGet, "/openapi/v2", ""); a.code != http.StatusOK {
		t.Errorf("a workload: %d %s", a.code, a.body)
	}
}
