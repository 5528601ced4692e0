package program

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// start runs a registry on a store and returns its address.
func start(t *testing.T, dsn string) (addr string, stop func()) {
	t.Helper()
	return startAs(t, dsn, nil)
}

// startAs starts a registry with a certificate.
func startAs(t *testing.T, dsn string, source *identity.Source) (addr string, stop func()) {
	t.Helper()
	_, url := kittest.NATS(t)
	var cfg registry.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Store = "127.0.0.1:0", dsn
	host := kittest.Host(t, rpc.TCP(), url)
	host.Identity = source
	d, err := New(t.Context(), cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	return d.Addr().String(), kittest.Run(t, "registry", d.Run)
}

func leases(t *testing.T, addr string) registryv1.LeaseServiceClient {
	t.Helper()
	conn, err := rpc.TCP().Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return registryv1.NewLeaseServiceClient(conn)
}

// TestCommands exports a running registry into a store, and that store into another running
// registry.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file, second := filepath.Join(dir, "backup"), filepath.Join(dir, "second")
	source, stop := start(t, "sqlite:"+filepath.Join(dir, "first"))
	created, err := leases(t, source).CreateLease(t.Context(), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "l"}}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(command string, args ...string) error { return commands()[command](t.Context(), args) }
	if err := run("export", "-server", source, "-file", file); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := run("import", "-store", "sqlite:"+second, "-file", file); err != nil {
		t.Fatal(err)
	}
	if err := run("import", "-store", "sqlite:"+second, "-file", file); err == nil {
		t.Error("a store that is not empty was filled again")
	}
	again := filepath.Join(dir, "again")
	if err := run("export", "-store", "sqlite:"+second, "-file", again); err != nil {
		t.Fatal(err)
	}
	target, _ := start(t, "sqlite:"+filepath.Join(dir, "third"))
	if err := run("import", "-server", target, "-file", again); err != nil {
		t.Fatal(err)
	}
	got, err := leases(t, target).GetLease(t.Context(), &registryv1.GetLeaseRequest{Name: "l"})
	if err != nil || !got.GetLease().EqualVT(created.GetLease()) {
		t.Errorf("after two backups: %v, %v; want %v", got, err, created.GetLease())
	}
}

// TestInstallation shows and changes the identity of a store. An import does not change it.
func TestInstallation(t *testing.T) {
	dir := t.TempDir()
	first, second, file := "sqlite:"+filepath.Join(dir, "first"), "sqlite:"+filepath.Join(dir, "second"), filepath.Join(dir, "backup")
	_, stop := start(t, first)
	stop()
	identity := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		if err := runInstallation(t.Context(), args, &out); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	original := identity("-store", first)
	run := func(command, where string) error {
		return commands()[command](t.Context(), []string{"-store", where, "-file", file})
	}
	if err := errors.Join(run("export", first), run("import", second)); err != nil {
		t.Fatal(err)
	}
	own := identity("-store", second)
	if own == original {
		t.Errorf("the restored store is of %s, too", original)
	}
	if got := identity("-store", second, "-set", original); got != original || identity("-store", second) != original {
		t.Errorf("the restored store is of %s", got)
	}
	if got := identity("-store", second, "-set", "new"); got == original || got == own || got != identity("-store", second) {
		t.Errorf("the new identity is %s", got)
	}
	for _, args := range [][]string{nil, {"-store", first, "-set", "a b"}} {
		if err := runInstallation(t.Context(), args, io.Discard); !errors.Is(err, config.ErrInvalid) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if got := identity("-store", first); got != original {
		t.Errorf("the original is of %s, and was of %s", got, original)
	}
}

// TestCutOff checks that half a file is refused, and that a failed export leaves no file that looks
// like a backup.
func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	source, stop := start(t, "sqlite:"+filepath.Join(dir, "first"))
	if err := runExport(t.Context(), []string{"-server", source, "-file", file}, io.Discard); err != nil {
		t.Fatal(err)
	}
	stop()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(file, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := runImport(t.Context(), []string{"-store", "sqlite:" + filepath.Join(dir, "second"), "-file", file}, nil); err == nil {
			t.Errorf("the first %d bytes of %d were imported", size, len(whole))
		}
	}
	missing := filepath.Join(dir, "missing")
	if err := runExport(t.Context(), []string{"-server", source, "-file", missing}, io.Discard); err == nil {
		t.Error("an export from a registry that is gone succeeded")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*missing*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the failed export left %v, %v", left, err)
	}
	if left, err = filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("the failed export left %v, %v", left, err)
	}
}

// TestCommandsOverTLS checks that a registry with TLS lets only an operator take a backup.
func TestCommandsOverTLS(t *testing.T) {
	certs := kittest.NewCertificates(t)
	dir := t.TempDir()
	addr, _ := startAs(t, "sqlite:"+filepath.Join(dir, "store"), certs.Source("registry"))
	export := func(who string) error {
		files := certs.Issue(who, time.Hour)
		return commands()["export"](t.Context(), []string{
			"-server", addr, "-file", filepath.Join(dir, "backup"), "-tls-cert", files.Cert, "-tls-key", files.Key, "-tls-ca", files.CA,
		})
	}
	if err := export("operator"); err != nil {
		t.Error(err)
	}
	if err := export("viewer"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a viewer: %v", err)
	}
	if err := commands()["export"](t.Context(), []string{"-server", addr, "-file", filepath.Join(dir, "backup")}); err == nil {
		t.Error("without a certificate: a backup")
	}
}
