package program

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/registry"
	"portolan.dev/services/kit/kittest"
)

// TestErrorsHaveNoPassword checks that no error of a store that cannot be opened has the password of
// its URL.
func TestErrorsHaveNoPassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://portolan:hush@127.0.0.1:1/portolan",
		"postgres://portolan:hush@127.0.0.1:port/portolan",
		"postgres://portolan:hush%zz@127.0.0.1:1/portolan",
		"postgres://portolan:hush@127.0.0.1:1/portolan?sslmode=nonsense",
		"host=127.0.0.1 port=1 user=portolan password=hush",
		"host=127.0.0.1 port=x user=portolan password='hush",
		"mysql://portolan:hush@db/portolan",
	} {
		s, err := OpenStore(t.Context(), registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
		if err == nil {
			_ = s.Close()
			t.Fatalf("%s was opened", dsn)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", dsn, err)
		}
		file := filepath.Join(t.TempDir(), "backup")
		err = runExport(t.Context(), []string{"-store-file", kittest.SecretFile(t, dsn), "-file", file}, nil)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("export from %s: %v", dsn, err)
		}
	}
}
