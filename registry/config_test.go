package registry_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/registry"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/config"
)

func none(string) (string, bool) { return "", false }

func TestConfig(t *testing.T) {
	var good registry.Config
	if err := config.Load("registry", &good, []string{"-store", "postgres://registry@db/portolan", "-service-cidr", "fd00:96::/112,10.96.0.0/16"}, none, io.Discard); err != nil {
		t.Error(err)
	}
	var bad registry.Config
	err := config.Load("registry", &bad, []string{
		"-store", "mysql://x", "-service-cidr", "", "-zone", "Cluster Local", "-max-events", "0", "-log-retention", "-1",
	}, none, io.Discard)
	if err == nil {
		t.Fatal("a bad configuration was accepted")
	}
	for _, name := range []string{"store", "service-cidr", "zone", "max-events", "log-retention"} {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("nothing is said about %s:\n%v", name, err)
		}
	}
}

// TestStoreFile checks that the store's URL is read from its file, and that no error has its
// password.
func TestStoreFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var cfg registry.Config
	if err := config.Load("registry", &cfg, []string{"-store-file", file}, none, io.Discard); err != nil {
		t.Fatal(err) // a file that does not exist yet is no error of the configuration
	}
	if err := cfg.ReadStoreFile(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	write("mysql://portolan:hush@db/portolan\n")
	wrong := cfg
	if err := wrong.ReadStoreFile(); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("another store: %v", err)
	}
	write("postgres://portolan:hush@db/portolan\n")
	if err := cfg.ReadStoreFile(); err != nil {
		t.Fatal(err)
	}
	if kind, where, err := cfg.StoreLocation(); kind != daemon.Postgres || where != "postgres://portolan:hush@db/portolan" || err != nil {
		t.Errorf("store %s at %s, %v", kind, where, err)
	}
	err := config.Load("registry", &cfg, []string{"-store", "postgres://portolan:hush@db/portolan"}, none, io.Discard)
	if !errors.Is(err, config.ErrInvalid) || strings.Contains(err.Error(), "hush") {
		t.Errorf("a password on the command line: %v", err)
	}
}
