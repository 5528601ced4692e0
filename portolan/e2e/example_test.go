package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/services/kit/kittest"
)

// TestExample runs the installation of `make run`, and the commands that it prints.
func TestExample(t *testing.T) {
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	example, err := filepath.Abs(repository + "/examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	i.startDev("--example", example)
	newGRPCurl(i, 7400)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	tried := 0
	for _, name := range []string{"curl", "dig", "TOKEN=$(cat"} {
		line := strings.TrimSpace(i.process.await("  " + name + " "))
		// The name server and the node follow the registry independently.
		kittest.Eventually(t, line, func() error {
			out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
			if err != nil || len(strings.TrimSpace(string(out))) == 0 {
				return fmt.Errorf("%w\n%s", cmp.Or(err, errors.New("no answer")), out)
			}
			return nil
		})
		tried++
	}
	if tried != 3 {
		t.Errorf("tried %d commands", tried)
	}
	counts := spread(t, hostPort(i.vip("hello"), 8080), 30)
	if len(counts) != 3 {
		t.Errorf("30 requests were answered by %v, want three backends", counts)
	}
	kittest.Eventually(t, "the explanation", func() error {
		return lacks(i.portolan("explain", "service", "hello"), "no link is broken")
	})
	if err := lacks(i.portolan("dns", "query", "hello", "--explain"), i.vip("hello"), "Service default/hello"); err != nil {
		t.Error(err)
	}
	if err := lacks(i.portolan("dns", "resolvconf", "-n", "shop", "--nameserver", "127.0.0.1"), "nameserver 127.0.0.1\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\n"); err != nil {
		t.Error(err)
	}
}

// lacks returns an error that names a wanted text that is missing.
func lacks(text string, wanted ...string) error {
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			return fmt.Errorf("no %q in:\n%s", want, text)
		}
	}
	return nil
}
