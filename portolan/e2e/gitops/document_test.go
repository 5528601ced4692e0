package gitops

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/internal/programtest"
	"portolan.dev/registrar"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
)

// document is the document under test.
const document = repository + "/docs/gitops.md"

// TestDocument follows docs/gitops.md in its order. Bash runs every block marked sh. The block
// marked console starts registrar, which the test runs while a file comes and goes.
func TestDocument(t *testing.T) {
	i := install(t)
	folder := t.TempDir()
	ran := map[string]int{}
	for _, b := range programtest.Blocks(t, document) {
		ran[b.Language]++
		switch b.Language {
		case "sh":
			i.bash(folder, b)
		case "console":
			i.registrar(folder, b)
		default:
			t.Errorf("%s:%d: a block is marked %q", document, b.Line, b.Language)
		}
	}
	if ran["sh"] < 5 || ran["console"] != 1 {
		t.Errorf("blocks %v were found", ran)
	}
	i.expect("service/web", "!service/db", "!service/cart")
}

// refused is a function of the shell in place of "!" at the beginning of a line, because the shell does not
// end with an error if a command behind "!" succeeds.
const refused = `refused() { if "$@"; then echo "it was not refused: $*"; return 1; fi; }`

// bash runs a block in a folder.
func (i *installation) bash(folder string, b programtest.Block) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+refused+strings.ReplaceAll("\n"+b.Text, "\n! ", "\nrefused "))
	c.Dir, c.Env = folder, []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + folder, "PORTOLAN_SERVER=" + i.config.Addr, "PORTOLAN_REGISTRAR_REGISTRY=" + i.config.Addr}
	c.WaitDelay = time.Second // for processes that a killed shell has left running
	out, err := c.CombinedOutput()
	if err != nil {
		i.Fatalf("%s:%d: %v\n%s\n%s", document, b.Line, err, b.Text, out)
	}
	i.Logf("%s:%d:\n%s%s", document, b.Line, b.Text, out)
}

// registrar runs a line for registrar: the registrar follows a folder, while a file comes and goes.
func (i *installation) registrar(folder string, b programtest.Block) {
	i.Helper()
	arguments, ok := strings.CutPrefix(strings.TrimSpace(b.Text), "# registrar ")
	if !ok {
		i.Fatalf("%s:%d: the test has nothing to do in place of %q", document, b.Line, b.Text)
	}
	var cfg registrar.Config
	if err := config.Load("registrar", &cfg, strings.Fields(arguments), func(string) (string, bool) { return "", false }, io.Discard); err != nil {
		i.Fatalf("%s:%d: %v", document, b.Line, err)
	}
	cfg.Addr, cfg.Registry, cfg.NodeName, cfg.Dir = "127.0.0.1:0", i.config.Addr, "n1", filepath.Join(folder, cfg.Dir)
	daemon, err := registrar.New(i.Context(), cfg, kittest.Host(i, i.network, i.nats))
	if err != nil {
		i.Fatal(err)
	}
	stop := kittest.Run(i, "registrar", daemon.Run)
	manifest := strings.ReplaceAll(service("default", "cart", "cart"), "{app: cart}\nspec", "{app.kubernetes.io/part-of: shop}\nspec")
	write(i, cfg.Dir, map[string]string{"cart.yaml": manifest})
	i.await("service/cart", "service/web")
	if err := os.Remove(filepath.Join(cfg.Dir, "cart.yaml")); err != nil {
		i.Fatal(err)
	}
	i.await("!service/cart", "service/web")
	stop()
}
