package wire_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	kubev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"portolan.dev/kubeapi/internal/wire"
)

func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]wire.Format{
		"":                            {MediaType: wire.JSON},
		"*/*":                         {MediaType: wire.JSON},
		"application/yaml":            {MediaType: wire.YAML},
		"text/html, application/json": {MediaType: wire.JSON},
		"application/vnd.kubernetes.protobuf,application/json":               {MediaType: wire.Protobuf},
		"application/json;q=0.1,application/yaml;q=0.9":                      {MediaType: wire.YAML},
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json":      {MediaType: wire.JSON, As: wire.Table, Version: "v1"},
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json": {MediaType: wire.JSON, As: wire.Table, Version: "v1beta1"},
		"application/json;as=Table;v=v2;g=meta.k8s.io,application/json":      {MediaType: wire.JSON},
		"application/json;as=Other;v=v1;g=meta.k8s.io,application/yaml":      {MediaType: wire.YAML},
		// Table has no protobuf.
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json": {MediaType: wire.JSON},
		"application/vnd.kubernetes.protobuf;stream=watch":                                 {MediaType: wire.Protobuf},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		if got, err := wire.Negotiate(r, wire.Table); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", accept, got, err, want)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	if _, err := wire.Negotiate(r); err == nil || !strings.Contains(err.Error(), "Available representations") {
		t.Errorf("text/html: %v", err)
	}
}

// TestBodies writes an object in each encoding and reads it again.
func TestBodies(t *testing.T) {
	kind := kubev1.SchemeGroupVersion.WithKind("Namespace")
	namespace := &kubev1.Namespace{}
	namespace.Name = "shop"
	namespace.SetGroupVersionKind(kind)
	for _, mediaType := range []string{wire.JSON, wire.YAML, wire.Protobuf} {
		format := wire.Format{MediaType: mediaType}
		body, err := format.Encode(namespace)
		if err != nil {
			t.Fatal(err)
		}
		back := &kubev1.Namespace{}
		if strict, err := wire.Decode(body, mediaType, kind, back); err != nil || len(strict) != 0 || back.Name != "shop" {
			t.Errorf("%s: %v, %v, %v", mediaType, back, strict, err)
		}
		if _, err := wire.Decode(body, mediaType, kubev1.SchemeGroupVersion.WithKind("Pod"), &kubev1.Namespace{}); err == nil || !strings.Contains(err.Error(), "cannot be handled as a Pod") {
			t.Errorf("%s as another kind: %v", mediaType, err)
		}
	}
	for _, c := range []struct{ mediaType, body, strict, err string }{
		{wire.JSON, `{"spec":{"finalizer":["a"]},"metadata":{"name":"a","name":"b"}}`, `unknown field "spec.finalizer"`, ""},
		{wire.YAML, "metadata: {name: a}\nmetadata: {name: b}\n", "already", ""},
		{wire.JSON, `{"metadata":`, "", "must be of type Namespace"},
		{wire.JSON, `[]`, "", "must be of type Namespace"},
		{wire.YAML, "a: [", "", "must be of type Namespace"},
		{wire.Protobuf, "k8s\x00\xff\xff", "", "must be of type Namespace"},
		{wire.Protobuf, "{}", "", "expected prefix"},
		{"text/html", "x", "", "unknown format"},
	} {
		strict, err := wire.Decode([]byte(c.body), c.mediaType, kind, &kubev1.Namespace{})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.body, err, c.err)
		}
		text := ""
		for _, one := range strict {
			text += one.Error()
		}
		if !strings.Contains(text, c.strict) || c.strict == "" && text != "" {
			t.Errorf("%q: mistakes %q, want %q", c.body, text, c.strict)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"metadata":{"name":"a"}}`, "metadata: {name: a}", "k8s\x00\n\x00"} {
		for _, mediaType := range []string{wire.JSON, wire.YAML, wire.Protobuf} {
			f.Add([]byte(seed), mediaType)
		}
	}
	f.Fuzz(func(_ *testing.T, body []byte, mediaType string) {
		var into runtime.Object = &kubev1.Pod{}
		_, _ = wire.Decode(body, mediaType, kubev1.SchemeGroupVersion.WithKind("Pod"), into) // must return
	})
}
