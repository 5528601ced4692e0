package compile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBelowNamesEveryFault(t *testing.T) {
	root := t.TempDir()
	broken := "syntax = \"proto3\";\nmessage A { Nowhere one = 1;\n  Missing two = 2; }\n"
	if err := os.WriteFile(filepath.Join(root, "a.proto"), []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Below(t.Context(), root)
	if err == nil {
		t.Fatal("a broken contract compiled")
	}
	for _, want := range []string{"a.proto:2:13", "Nowhere", "a.proto:3:3", "Missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}
