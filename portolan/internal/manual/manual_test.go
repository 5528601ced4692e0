package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"portolan.dev/services/kit/config"
)

// TestPages checks that each command and daemon has a page with all its settings.
func TestPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man")
	root := &cobra.Command{Use: "portolan", Short: "s"}
	root.AddCommand(&cobra.Command{Use: "get KIND", Short: "Show objects", Run: func(*cobra.Command, []string) {}})
	if err := Write(folder, root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"portolan.1", "portolan-get.1"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	for _, d := range daemons {
		text, err := os.ReadFile(filepath.Join(folder, d.name+".8"))
		if err != nil {
			t.Fatal(err)
		}
		page := strings.ReplaceAll(string(text), `\-`, "-")
		for _, f := range config.Flags(d.name, d.settings) {
			if !strings.Contains(page, "-"+f.Name) || !strings.Contains(strings.ReplaceAll(page, `\_`, "_"), f.Env) {
				t.Errorf("%s.8 lacks -%s", d.name, f.Name)
			}
		}
		if man, err := exec.LookPath("groff"); err == nil {
			out, err := exec.CommandContext(t.Context(), man, "-man", "-Tutf8", "-P-cbou", filepath.Join(folder, d.name+".8")).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "OPTIONS") {
				t.Errorf("groff: %v\n%s", err, out)
			}
		}
	}
}
