package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// TestCommandLineRenewsItsOwnCertificate waits until an operator's certificate has expired. With the
// authority's key in the folder the command line makes a new one; without the key it reports the end.
func TestCommandLineRenewsItsOwnCertificate(t *testing.T) {
	dir := t.TempDir()
	requests := []certs.Request{{Role: "operator", Lifetime: time.Second}, {Role: "viewer"}}
	if _, err := certs.Init(dir, "portolan", time.Hour, requests, false); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "ca.key")
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the end of the certificate", func() error {
		_, err := (&connection{certs: dir}).identity()
		if err == nil {
			return os.ErrDeadlineExceeded
		}
		if !strings.Contains(err.Error(), "expired on") || !strings.Contains(err.Error(), "portolan certs renew") {
			t.Errorf("error %v", err)
		}
		return nil
	})
	if err := os.WriteFile(key, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := (&connection{certs: dir}).identity()
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(source.Expires()); source.ID().Role != identity.Operator || left < 50*time.Minute {
		t.Errorf("%s for %s", source.ID(), left)
	}
	again, err := (&connection{certs: dir}).identity()
	if err != nil || again.Certificate().SerialNumber.Cmp(source.Certificate().SerialNumber) != 0 {
		t.Errorf("a new certificate is renewed again: %v", err)
	}
}

// TestIssuerForAFolderOfAnEarlierRelease removes the issuer of a folder, as an earlier release left
// it, and makes it by the command.
func TestIssuerForAFolderOfAnEarlierRelease(t *testing.T) {
	dir := t.TempDir()
	if _, err := certs.Init(dir, "portolan", 200*24*time.Hour, nil, false); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.crt")
	bundle, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(bundle), "-----END CERTIFICATE-----\n")
	first += "-----END CERTIFICATE-----\n"
	if first == string(bundle) {
		t.Fatal("the issuer is not among the trusted authorities")
	}
	if err := os.WriteFile(ca, []byte(first), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"issuer.crt", "issuer.key"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	life := func(who string) time.Duration {
		code, _, errOut := run(t, "", "certs", "issue", who, "--certs", dir)
		if code != 0 {
			t.Fatal(errOut)
		}
		source, err := identity.Open(identity.Options{Files: identity.Files{Cert: filepath.Join(dir, who+".crt"), Key: filepath.Join(dir, who+".key"), CA: ca}, Log: kittest.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(source.Expires()).Round(time.Hour)
	}
	if got := life("registry"); got != 90*24*time.Hour {
		t.Errorf("without an issuer a certificate is good for %s", got)
	}
	for range 2 { // the second time it stays
		if code, out, errOut := run(t, "", "certs", "issuer", "--certs", dir); code != 0 || !strings.Contains(out, "issuer") {
			t.Fatalf("exit code %d: %s%s", code, out, errOut)
		}
	}
	bundle, err = os.ReadFile(ca)
	issuer, issuerErr := os.ReadFile(filepath.Join(dir, "issuer.crt"))
	if err != nil || issuerErr != nil || string(bundle) != first+string(issuer) {
		t.Errorf("ca.crt is not the authority and the issuer: %v, %v", err, issuerErr)
	}
	if got := life("allocator"); got != 24*time.Hour {
		t.Errorf("with an issuer a certificate is good for %s", got)
	}
	if got := life("nats"); got != 90*24*time.Hour {
		t.Errorf("the certificate of a server of NATS is good for %s", got)
	}
}
