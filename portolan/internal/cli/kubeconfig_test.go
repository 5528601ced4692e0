package cli

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// TestKubeconfigOfCertificate writes a kubeconfig with the caller's certificate, for which no server is asked.
func TestKubeconfigOfCertificate(t *testing.T) {
	certs := kittest.NewCertificates(t)
	files := certs.Issue("operator/shop", time.Hour)
	credentials := []string{"--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-ca", files.CA}
	path := filepath.Join(t.TempDir(), "config")
	write := func(args ...string) (int, string, string) {
		return run(t, "", append(append([]string{"kubeconfig", "--certificate"}, args...), credentials...)...)
	}
	if code, out, errOut := write("-f", path); code != 0 || out != "" {
		t.Fatalf("%d, %q, %s", code, out, errOut)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"server: https://127.0.0.1:7405\n", "certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) + "\n", "client-certificate: " + files.Cert + "\n",
		"client-key: " + files.Key + "\n", "namespace: shop\n", "user: operator/shop\n", "current-context: portolan\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(text), "token") {
		t.Errorf("%v, %v, %s", info.Mode(), err, text)
	}
	if code, out, _ := write(); code != 0 || out != string(text) {
		t.Errorf("the standard output has %q", out)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil { // #nosec G306 -- no secret
		t.Fatal(err)
	}
	if code, _, errOut := write("-f", path); code != 1 || !strings.Contains(errOut, "exists: --force replaces it") {
		t.Errorf("%d %s", code, errOut)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "mine" {
		t.Errorf("%q, %v", kept, err)
	}
	if code, _, errOut := write("-f", path, "--force", "--kubeapi", "https://k8s.example.com"); code != 0 {
		t.Error(errOut)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestTokenMisuse runs commands about tokens that cannot work. None leaves a file, and none that reaches no
// registry prints a token.
func TestTokenMisuse(t *testing.T) {
	certs := kittest.NewCertificates(t)
	files := certs.Issue("operator", time.Hour)
	credentials := []string{"--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-ca", files.CA}
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"token", "create", "ci"}, 2, "want --role"},
		{[]string{"token", "create", "ci", "--role", "registry"}, 2, "tokens stand for operators, viewers and workloads"},
		{[]string{"token", "create", "ci", "--role", "workload"}, 2, "workload/NODE"},
		{[]string{"token", "create", "ci", "--role", "viewer/shop", "--namespace", "other"}, 2, "--role viewer/shop"},
		{[]string{"token", "create", "ci", "--role", "viewer", "--ttl", "forever"}, 2, "--ttl"},
		{[]string{"token", "create", "--role", "viewer"}, 2, "want NAME"},
		{[]string{"token", "create", "ci", "--role", "viewer"}, 1, "127.0.0.1:1"},
		{[]string{"kubeconfig"}, 2, "want --role"},
		{[]string{"kubeconfig", "--certificate", "--role", "viewer"}, 2, "takes no --role"},
		{[]string{"kubeconfig", "--certificate", "--ttl", "1h"}, 2, "takes no --role"},
		{[]string{"kubeconfig", "--role", "viewer", "--kubeapi", "http://k8s.example.com:7405"}, 2, "want HOST:PORT or https://HOST:PORT"},
		{[]string{"kubeconfig", "--role", "viewer", "-f", filepath.Join(dir, "config")}, 1, "127.0.0.1:1"},
		{[]string{"kubeconfig", "--role", "viewer", "-f", filepath.Join(dir, "none", "config")}, 1, "no such file"},
	} {
		code, out, errOut := run(t, "", append(c.args, credentials...)...)
		if code != c.code || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%q: exit code %d, %q, want %d with %q:\n%s", c.args, code, out, c.code, c.want, errOut)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if code, _, errOut := run(t, "", "kubeconfig", "--role", "viewer"); code != 1 || !strings.Contains(errOut, "without certificates there are no roles") {
		t.Errorf("%d %s", code, errOut)
	}
}
