package dockertest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// busybox returns the path of a busybox that needs no libraries.
func busybox(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err == nil {
		var file *elf.File
		if file, err = elf.Open(path); err == nil {
			defer func() { _ = file.Close() }()
			if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
				err = fmt.Errorf("%s needs libraries", path)
			}
		}
	}
	if err != nil {
		if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
			t.Fatalf("busybox-static is needed: %v", err)
		}
		t.Skipf("busybox-static is needed: %v", err)
	}
	return path
}

// buildContext returns a folder from which the image of all containers is built: a shell that exposes
// [Port].
func buildContext(t testing.TB) string {
	t.Helper()
	program := busybox(t)
	dir := t.TempDir()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "busybox"), content, 0o755); err != nil {
		t.Fatal(err)
	}
	dockerfile := fmt.Sprintf("FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nEXPOSE %d\n", Port)
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
