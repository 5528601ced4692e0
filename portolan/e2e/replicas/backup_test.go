package replicas

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
)

// TestBackup takes a backup from a running registry and one from its store, and restores each into
// an empty database. It then starts a registry and an allocator that never saw the services, and
// checks that they have the same objects at the same revisions, and that the allocator recovers the
// addresses.
func TestBackup(t *testing.T) {
	original := install(t, kittest.Postgres(t), brokers(t, 1), 1)
	r := original.replicas[0]
	for _, name := range []string{"a", "b", "c"} {
		if _, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web(name)}); err != nil {
			t.Fatal(err)
		}
	}
	want, err := r.list(r.head())
	if err != nil {
		t.Fatal(err)
	}
	head := r.head()
	online, offline := filepath.Join(t.TempDir(), "online"), filepath.Join(t.TempDir(), "offline")
	runs(t, "registry", "export", "-server", r.door.addr(), "-file", online)
	r.kill()
	original.allocator.kill()
	runs(t, "registry", "export", "-store-file", kittest.SecretFile(t, original.store), "-file", offline)

	for _, backup := range []string{online, offline} {
		t.Run(filepath.Base(backup), func(t *testing.T) {
			dsn := kittest.Postgres(t)
			runs(t, "registry", "import", "-store-file", kittest.SecretFile(t, dsn), "-file", backup)
			if err := command(t, "registry", "import", "-store-file", kittest.SecretFile(t, dsn), "-file", backup).Run(); err == nil {
				t.Error("a backup was restored over what was there")
			}
			restored := install(t, dsn, brokers(t, 1), 1, "-verify-grace", "1s", "-verify-interval", "200ms")
			compareRestored(t, restored, want, head)
		})
	}
	t.Run("damaged", func(t *testing.T) {
		content, err := os.ReadFile(online)
		if err != nil {
			t.Fatal(err)
		}
		cut := filepath.Join(t.TempDir(), "cut")
		if err := os.WriteFile(cut, content[:len(content)-3], 0o600); err != nil {
			t.Fatal(err)
		}
		dsn := kittest.Postgres(t)
		if err := command(t, "registry", "import", "-store-file", kittest.SecretFile(t, dsn), "-file", cut).Run(); err == nil {
			t.Error("half a backup was restored")
		}
		// The partial import has left nothing behind.
		runs(t, "registry", "import", "-store-file", kittest.SecretFile(t, dsn), "-file", online)
	})
}

func compareRestored(t *testing.T, restored *installation, want map[string]*corev1.Service, head uint64) {
	t.Helper()
	r := restored.replicas[0]
	got, err := r.list(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(want, got); err != nil {
		t.Error(err)
	}
	if now := r.head(); now < head {
		t.Errorf("the restored registry is at revision %d, the original was at %d: followers would see revisions again", now, head)
	}
	wanted := map[string]bool{}
	for name := range want {
		wanted[name] = true
	}
	kittest.Eventually(t, "the allocator has the addresses again", func() error {
		held, err := restored.allocator.held()
		if err != nil {
			return err
		}
		return settled(wanted, got, held)
	})
}
