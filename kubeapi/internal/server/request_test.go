package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzRequest parses the resource, the verb and the options of requests. It checks that each request has a
// handler and options in their ranges, or gets the Status of a client's mistake.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/default/services", "limit=1&continue=x")
	f.Add("GET", "/apis/discovery.k8s.io/v1/endpointslices", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=9")
	f.Add("DELETE", "/api/v1/namespaces/default/", "dryRun=All")
	f.Add("PUT", "//api//v1/namespaces/x/finalize/", "fieldValidation=Strict")
	codes := []int32{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Method, r.URL = method, &url.URL{Path: path, RawQuery: query}
		req := &request{server: &Server{}, w: httptest.NewRecorder(), r: r, ctx: t.Context(), query: r.URL.Query()}
		err := req.route()
		if err == nil {
			if req.resource == nil || handlers[req.verb] == nil && req.verb != verbWatch {
				t.Fatalf("no handler of %q for %v", req.verb, req.resource)
			}
			var o listOptions
			o, err = parseListOptions(req.query, req.verb == verbWatch)
			if err == nil && (o.limit < 0 || o.timeout < 0) {
				t.Fatalf("%+v", o)
			}
		}
		if err == nil && req.resource.Codec != nil {
			_, err = req.newWriting()
		}
		if known := apierrors.APIStatus(nil); err != nil && (!errors.As(err, &known) || !slices.Contains(codes, known.Status().Code)) {
			t.Fatalf("%v is no mistake of the client", err)
		}
	})
}
