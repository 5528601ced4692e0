package manifest_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
)

// FuzzDecode checks that decoding any text does not panic, that every mistake has a position, and
// that a decoded object stays the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{
		service, "a: &a [*a]\n", "a: *b\n", "<<: {a: b}\n", "{\"a\":", "[[[[", "--- \n...\n---", "%YAML 1.2\n---\n", "? - a\n", "a: !!int x\n", "\ufeff",
		"apiVersion: v1\nkind: List\nitems: [null, 1, {}]\n", "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {portolan.dev/weight: 1}}\n",
		"apiVersion: v1\nkind: Service\nspec: {ports: [null]}\n", "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nendpoints: [null, {topology: 1}]\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: \"\\x7f\"}\n", "apiVersion: v1\nkind: Event\nfirstTimestamp: 2026-11-22T01:02:03Z\n", "apiVersion: v1\nkind: Node\nstatus: {capacity: {cpu: 1}}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		documents, err := manifest.Decode(bytes.NewReader(text), "fuzz")
		var problems manifest.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("%T: %v", err, err)
		}
		for _, problem := range problems {
			if problem.Line < 1 || problem.Column < 1 || problem.Line > bytes.Count(text, []byte("\n"))+2 || problem.Message == "" {
				t.Fatalf("%q: %s", text, problem.Error())
			}
		}
		for _, document := range documents {
			if document.Object != nil {
				readsBack(t, document.Object)
			}
		}
	})
}

func readsBack(t *testing.T, o object.Object) {
	t.Helper()
	for _, format := range []manifest.Format{manifest.YAML, manifest.JSON} {
		var out bytes.Buffer
		if err := manifest.NewEncoder(&out, format).Encode(o); err != nil {
			t.Fatal(err)
		}
		documents, err := manifest.Decode(strings.NewReader(out.String()), "written")
		if err != nil || len(documents) != 1 {
			t.Fatalf("%v\n%s", err, out.String())
		}
		var again bytes.Buffer
		if err := manifest.NewEncoder(&again, format).Encode(documents[0].Object); err != nil {
			t.Fatal(err)
		}
		if again.String() != out.String() {
			t.Fatalf("written\n%s\nread and written again\n%s", out.String(), again.String())
		}
	}
}
