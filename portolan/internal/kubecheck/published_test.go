package kubecheck

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	kcorev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"portolan.dev/services/kinds"
	"portolan.dev/services/manifest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// published is the folder of the manifests that Kubernetes' documentation has contained.
const published = "../../testdata/repository/services/manifest/testdata/"

// asKubernetes decodes every document with Kubernetes' own decoder.
func asKubernetes(t *testing.T, text string) []any {
	t.Helper()
	var typed []any
	for document := range strings.SplitSeq(text, "\n---\n") {
		var header struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal([]byte(document), &header); err != nil {
			t.Fatal(err)
		}
		into, ok := map[string]any{
			"Service": &kcorev1.Service{}, "Endpoints": &kcorev1.Endpoints{}, "Pod": &kcorev1.Pod{}, "EndpointSlice": &discoveryv1.EndpointSlice{},
		}[header.Kind]
		if !ok {
			t.Fatalf("kind %q", header.Kind)
		}
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			t.Fatal(err)
		}
		typed = append(typed, into)
	}
	return typed
}

func decode(t *testing.T, text string) []manifest.Document {
	t.Helper()
	documents, err := manifest.Decode(strings.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

func encode(t *testing.T, format manifest.Format, objects ...object.Object) string {
	t.Helper()
	var out bytes.Buffer
	encoder := manifest.NewEncoder(&out, format)
	for _, o := range objects {
		if err := encoder.Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// comesBackEqual decodes a manifest, checks that its objects are valid, writes them, and compares
// the objects that Kubernetes decodes from both texts.
func comesBackEqual(t *testing.T, text string, want []any) []manifest.Document {
	t.Helper()
	documents := decode(t, text)
	var back []any
	for _, document := range documents {
		for _, format := range []manifest.Format{manifest.YAML, manifest.JSON} {
			back = asKubernetes(t, encode(t, format, document.Object))
			if diff := cmp.Diff(want[0], back[0], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, written as %s (-original +written):\n%s", object.KeyOf(document.Object), format, diff)
			}
		}
		want = want[1:]
		checkValid(t, document.Object)
	}
	if len(want) > 0 {
		t.Errorf("%d documents were not read", len(want))
	}
	return documents
}

func checkValid(t *testing.T, o object.Object) {
	t.Helper()
	kinds.Of(o).Default(o)
	kinds.Of(o).PrepareCreate(o)
	if violations := kinds.Of(o).Validate(o, spec.Rules{}); len(violations) > 0 {
		t.Errorf("not valid: %s", violations)
	}
}

// TestPublishedManifests reads every manifest that the documentation of Services has contained
// since the first release, unmodified.
func TestPublishedManifests(t *testing.T) {
	files, err := filepath.Glob(published + "*/*.*")
	if err != nil || len(files) != 29 {
		t.Fatalf("found %d manifests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, published), func(t *testing.T) {
			text := read(t, file)
			for _, document := range comesBackEqual(t, text, asKubernetes(t, text)) {
				wantWarnings := 0
				if file == published+"kubernetes-1.1/endpoints.json" { // spells ip as IP
					wantWarnings = 1
				}
				if len(document.Warnings) != wantWarnings {
					t.Errorf("warnings: %q", document.Warnings)
				}
			}
		})
	}
}

// TestPublishedFragments completes and reads the fragments in the documentation of Services.
func TestPublishedFragments(t *testing.T) {
	files, err := filepath.Glob(published + "*/fragments/*.yaml")
	if err != nil || len(files) != 38 {
		t.Fatalf("found %d fragments, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, published), func(t *testing.T) {
			text := complete(read(t, file))
			original := text
			if strings.HasSuffix(file, "internal-oci.yaml") { // Kubernetes refuses it in its published form
				original = strings.Replace(text, ": true", `: "true"`, 1)
			}
			document := comesBackEqual(t, text, asKubernetes(t, original))[0]
			if (original != text) != (len(document.Warnings) == 1) {
				t.Errorf("warnings: %q", document.Warnings)
			}
		})
	}
}

// complete makes a Service of a fragment.
func complete(fragment string) string {
	indent := fragment[:len(fragment)-len(strings.TrimLeft(fragment, " "))]
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(fragment, "\n"), "\n") {
		if line = strings.TrimPrefix(line, indent); line != "[...]" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	const named = "metadata:\n  name: my-service\n"
	switch {
	case !strings.Contains(text, "metadata:"):
		text = named + text
	case !strings.Contains(text, "name: my-service"):
		text = strings.Replace(text, "metadata:\n", named, 1)
	}
	if !strings.Contains(text, "spec:") {
		text += "spec:\n"
	}
	return "apiVersion: v1\nkind: Service\n" + text + "  type: LoadBalancer\n  ports:\n  - port: 80\n"
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
