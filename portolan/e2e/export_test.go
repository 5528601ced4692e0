package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// TestBackUpDev takes a backup of a running portolan dev, and imports it into another one that was just
// started, in which the service then works under its address.
func TestBackUpDev(t *testing.T) {
	i := install(t)
	i.apply(strings.ReplaceAll(firstService, "port: 80\n", "port: 8080\n"))
	vip := i.vip("my-service")
	file := filepath.Join(t.TempDir(), "backup")
	i.portolan("export", "-f", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info, err)
	}
	piped, _, err := i.try("", "export", "-f", "-")
	if err != nil || !strings.Contains(piped, "my-service") {
		t.Errorf("to standard output: %d bytes, %v", len(piped), err)
	}
	if _, errOut, err := i.try("", "import", "-f", file); err == nil || !strings.Contains(errOut, "the registry is not empty") {
		t.Errorf("an import over objects: %v\n%s", err, errOut)
	}
	i.stop()

	i.dataDir = t.TempDir()
	i.startDev()
	if out := i.portolan("import", "-f", file); !strings.Contains(out, "objects imported") {
		t.Errorf("import says %q", out)
	}
	if got := i.vip("my-service"); got != vip {
		t.Errorf("the service has the address %s, and had %s", got, vip)
	}
	i.hello("one", "app.kubernetes.io/name=MyApp", "http", 9376)
	i.awaitBackends("my-service", 1)
	kittest.Eventually(t, "an answer at the address", func() error {
		_, err := get(hostPort(vip, 8080))
		return err
	})
}
