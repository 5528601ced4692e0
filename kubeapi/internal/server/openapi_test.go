package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/kubeapi/internal/openapi"
	"portolan.dev/kubeapi/internal/resource"
)

// documented is an operation of a document. OpenAPI v2 and v3 both have these fields.
type documented struct {
	Action string `json:"x-kubernetes-action"`
	Kind   struct {
		Group, Version, Kind string
	} `json:"x-kubernetes-group-version-kind"`
	Parameters []struct{ Name, In string }
}

// verbOf has the verb of each action.
var verbOf = map[string]string{
	"get": verbGet, "list": verbList, "post": verbCreate, "put": verbUpdate, "patch": verbPatch, "delete": verbDelete, "deletecollection": verbDeleteCollection,
}

// TestOpenAPIHasServedOperations routes every operation of every document, and checks that every verb of
// every resource has an operation.
func TestOpenAPIHasServedOperations(t *testing.T) {
	v2 := operations(t, openapi.V2())
	v3 := map[string]documented{}
	for _, document := range openapi.V3() {
		maps.Copy(v3, operations(t, document))
	}
	if !slices.Equal(slices.Sorted(maps.Keys(v2)), slices.Sorted(maps.Keys(v3))) {
		t.Errorf("v2 and v3 differ:\n%v\n%v", slices.Sorted(maps.Keys(v2)), slices.Sorted(maps.Keys(v3)))
	}
	found := map[*resource.Resource][]string{}
	for name, o := range v3 {
		method, path, _ := strings.Cut(name, " ")
		path = strings.NewReplacer("{namespace}", "n", "{name}", "x").Replace(path)
		if _, ok := documents()[strings.TrimSuffix(path, "/")]; ok {
			continue
		}
		req := &request{r: httptest.NewRequest(strings.ToUpper(method), path, nil)}
		if err := req.route(); err != nil {
			t.Errorf("%s is not served: %v", name, err)
			continue
		}
		if want := verbOf[o.Action]; req.verb != want {
			t.Errorf("%s is %s, not %s", name, req.verb, want)
		}
		if kind := req.resource.Kind; o.Kind.Group != kind.Group || o.Kind.Version != kind.Version || o.Kind.Kind != kind.Kind {
			t.Errorf("%s is of the kind %v", name, o.Kind)
		}
		if req.subresource == "" {
			found[req.resource] = append(found[req.resource], req.verb)
		}
	}
	for _, r := range resource.All {
		for _, verb := range r.Verbs() {
			if verb != verbWatch && !slices.Contains(found[r], verb) { // a watch is a list with a parameter
				t.Errorf("%s: no document has the verb %s", r.GroupResource(), verb)
			}
		}
	}
}

// TestOpenAPIOfPatches checks that patches have the parameters without which kubectl refuses to apply.
func TestOpenAPIOfPatches(t *testing.T) {
	patches := 0
	for name, o := range operations(t, openapi.V2()) {
		if o.Action != "patch" {
			continue
		}
		patches++
		for _, wanted := range []string{"fieldValidation", "dryRun", "fieldManager", "force"} {
			if !slices.ContainsFunc(o.Parameters, func(p struct{ Name, In string }) bool { return p.Name == wanted && p.In == "query" }) {
				t.Errorf("%s has no parameter %s", name, wanted)
			}
		}
	}
	if patches < 10 {
		t.Errorf("%d patches are documented", patches)
	}
}

// operations returns the operations of a document by their method and path.
func operations(t *testing.T, d openapi.Document) map[string]documented {
	t.Helper()
	text, err := d.JSON.Content()
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	found := map[string]documented{}
	for path, item := range parsed.Paths {
		for method, text := range item {
			var o documented
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(text, &o); err != nil {
				t.Fatal(err)
			}
			found[method+" "+path] = o
		}
	}
	return found
}

// TestOpenAPICountsAsARequest checks that a document is refused above the limit of requests.
func TestOpenAPICountsAsARequest(t *testing.T) {
	for limit, code := range map[int]codes.Code{0: codes.ResourceExhausted, 1: codes.OK} {
		recorder := httptest.NewRecorder()
		req := &request{server: &Server{requests: make(chan struct{}, limit)}, w: recorder, r: httptest.NewRequest(http.MethodGet, "/openapi/v2", nil)}
		if err := documents()["/openapi/v2"](req); status.Code(err) != code || (recorder.Body.Len() > 0) != (code == codes.OK) {
			t.Errorf("with room for %d: %v, %d bytes", limit, err, recorder.Body.Len())
		}
	}
}
