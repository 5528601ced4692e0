package kindapi

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const object = `syntax = "proto3";
package portolan.core.v1;
import "portolan/core/v1/widget.proto";
message Object {
  oneof kind {
    BigWidget big_widget = 1;
    Endpoints endpoints = 2;
  }
}
`

const widget = `syntax = "proto3";
package portolan.core.v1;
// BigWidget is a kind of example.org. It has no namespaces.
message BigWidget { string status = 1; }
// Endpoints is a kind
// with a plural: its name.
message Endpoints {}
`

const table = `package kinds
var All = []*Kind{
	row[*corev1.BigWidget]{short: []string{"bw"}}.kind(),
	row[*corev1.Endpoints]{plural: "endpoints", namespaced: true}.kind(),
}
`

func TestGenerate(t *testing.T) {
	root := t.TempDir()
	write(t, root, envelope, object)
	write(t, root, "portolan/core/v1/widget.proto", widget)
	rows := write(t, root, "table.go", table)
	files, err := Generate(t.Context(), root, rows)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{folder + "/big_widgets.proto", folder + "/endpoints.proto"}) {
		t.Errorf("files: %q", names)
	}
	for _, want := range []string{
		"\nimport \"portolan/core/v1/widget.proto\";\n",
		"// BigWidgetService keeps the objects of kind BigWidget. BigWidget is a kind of example.org.\n",
		"rpc ListBigWidgets(", "rpc UpdateBigWidgetStatus(", "repeated portolan.core.v1.BigWidget big_widgets = 1;", "ordered by name,",
	} {
		if !strings.Contains(string(files[folder+"/big_widgets.proto"]), want) {
			t.Errorf("big_widgets.proto lacks %q", want)
		}
	}
	for want, has := range map[string]bool{
		"Endpoints is a kind with a plural.\n": true, "rpc ListEndpoints(": true, "string namespace = 1;": true, "Status(": false,
	} {
		if strings.Contains(string(files[folder+"/endpoints.proto"]), want) != has {
			t.Errorf("endpoints.proto has %q: want %v", want, has)
		}
	}

	write(t, root, folder+"/endpoints.proto", string(files[folder+"/endpoints.proto"]))
	write(t, root, folder+"/gone.proto", mark+"from a row that is gone.\n")
	write(t, root, folder+"/watch.proto", "// Written by hand.\n")
	stale, err := Stale(root, files)
	if err != nil || !slices.Equal(stale, []string{folder + "/gone.proto"}) {
		t.Errorf("stale: %q, %v", stale, err)
	}
}

func TestGenerateComparesTheTables(t *testing.T) {
	root := t.TempDir()
	write(t, root, envelope, object)
	write(t, root, "portolan/core/v1/widget.proto", widget)
	for name, rows := range map[string]string{
		"Other":     strings.Replace(table, "\n}\n", "\nrow[*corev1.Other]{}.kind(),\n}\n", 1),
		"Endpoints": strings.Replace(table, "row[*corev1.Endpoints]", "line[*corev1.Endpoints]", 1),
	} {
		if _, err := Generate(t.Context(), root, write(t, root, "table.go", rows)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is in one table only: got %v", name, err)
		}
	}
}

// write writes a file below root and returns its path.
func write(t *testing.T, root, name, content string) string {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
