package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// TestPrune prunes a document to one path.
func TestPrune(t *testing.T) {
	var d document
	if err := json.Unmarshal([]byte(`{
		"info": {}, "parameters": {"p-1": {"name": "dryRun"}, "p-2": {"name": "orphanDependents"}},
		"paths": {
			"/a": {
				"get": {"produces": ["application/json", "application/cbor"], "responses": {"200": {"schema": {"$ref": "#/definitions/A"}}}},
				"post": {"responses": {"200": {"schema": {"$ref": "#/definitions/Posted"}}}},
				"parameters": [{"$ref": "#/parameters/p-1"}, {"$ref": "#/parameters/p-2"}]
			},
			"/b": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/B"}}}}}
		},
		"definitions": {
			"A": {"properties": {"inner": {"items": {"$ref": "#/definitions/Inner"}}, "again": {"$ref": "#/definitions/A"}}},
			"B": {}, "Inner": {"type": "object"}, "Posted": {}
		}}`), &d); err != nil {
		t.Fatal(err)
	}
	d.inlineParameters()
	if err := d.prune("v1", methods{"/a": {"get"}}, "/definitions/"); err != nil {
		t.Fatal(err)
	}
	var want document
	if err := json.Unmarshal([]byte(`{
		"info": {"title": "Kubernetes", "version": "v1"},
		"paths": {"/a": {
			"get": {"produces": ["application/json"], "responses": {"200": {"schema": {"$ref": "#/definitions/A"}}}}, "parameters": [{"name": "dryRun"}]
		}},
		"definitions": {
			"A": {"properties": {"inner": {"items": {"$ref": "#/definitions/Inner"}}, "again": {"$ref": "#/definitions/A"}}}, "Inner": {"type": "object"}
		}}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(d, want) {
		have, _ := d.encode()
		t.Errorf("pruned to %s", have)
	}
	if err := d.prune("v1", methods{"/other": {"get"}}, "/definitions/"); err == nil {
		t.Error("a document without a path that is served was taken")
	}
}

// TestDescribe checks the descriptions of kinds that Portolan has, and of kinds that it lacks.
func TestDescribe(t *testing.T) {
	for kind, want := range map[string]string{
		"Pod": "Text. Portolan drops fields that it does not have, with a warning.", "Binding": "Text.",
		"ConfigMap": "Text. Portolan has no objects of this kind: lists are empty, and it cannot be written.",
	} {
		definition := map[string]any{
			"description":                     "Text.",
			"x-kubernetes-group-version-kind": []any{map[string]any{"group": "", "version": "v1", "kind": kind}},
		}
		if describe(definition); definition["description"] != want {
			t.Errorf("%s: %s", kind, definition["description"])
		}
	}
}

// TestWriteAndCompare writes documents, spoils the folder in every way, and writes them again.
func TestWriteAndCompare(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "documents")
	want := map[string][]byte{"a.json": []byte("a"), "b.json": []byte("b"), "c.json": []byte("c"), "same.json": []byte("same")}
	check := func(lines ...string) {
		t.Helper()
		if differ, err := compare(folder, want); err != nil || !slices.Equal(differ, lines) {
			t.Errorf("differ: %v, %v", differ, err)
		}
	}
	check("missing: a.json.gz", "missing: b.json.gz", "missing: c.json.gz", "missing: same.json.gz")
	if err := write(folder, want); err != nil {
		t.Fatal(err)
	}
	check()
	for name, content := range map[string][]byte{"a.json": compress([]byte("other")), "b.json": []byte("damaged"), "old.json": compress([]byte("old"))} {
		if err := os.WriteFile(filepath.Join(folder, name+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(folder, "c.json"+suffix)); err != nil {
		t.Fatal(err)
	}
	check("differs: a.json.gz", "differs: b.json.gz", "missing: c.json.gz", "no source: old.json.gz")
	if err := write(folder, want); err != nil {
		t.Fatal(err)
	}
	check()
}
