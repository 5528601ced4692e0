package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/spec"
)

// TestSecretOfFiles reads the files of a certificate, and refuses a command without them.
func TestSecretOfFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"crt", "key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("the "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &secretTLS{cert: filepath.Join(dir, "crt"), key: filepath.Join(dir, "key"), namespaceFlags: namespaceFlags{namespace: "shop"}}
	secret, err := f.secret("web")
	if err != nil || secret.GetType() != spec.SecretTypeTLS || len(secret.GetData()) != 2 || string(secret.GetData()[spec.SecretKey]) != "the key" || secret.GetMetadata().GetNamespace() != "shop" {
		t.Errorf("%v, %v", secret, err)
	}
	for want, args := range map[string][]string{
		"no such file":  {"web", "--cert", dir + "/none", "--key", dir + "/key"},
		`"key" not set`: {"web", "--cert", dir + "/crt"},
		"want NAME":     {"--cert", dir + "/crt", "--key", dir + "/key"},
		"127.0.0.1:1":   {"web", "--cert", dir + "/crt", "--key", dir + "/key"},
	} {
		if code, _, errOut := run(t, "", append([]string{"secret", "tls"}, args...)...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d, want %q:\n%s", args, code, want, errOut)
		}
	}
}
