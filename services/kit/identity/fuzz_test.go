package identity_test

import (
	"crypto/x509"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// FuzzPath checks that a parsed path is the path of its identity, that no two identities share the
// files of a certificate, and that a certificate with its URI has this identity.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"registry", "nodeagent/n1", "operator", "operator/shop", "workload/n1/default", "registrar/n1", "registrar/n1/shop", "monitor/p", "nodeagent", "nodeagent/", "workload/n1/..", "workload//default",
		"operator/shop/x", "nodeagent/n1@shop", "natsroute", "Registry", "viewer/", "",
	} {
		f.Add("portolan", path)
	}
	f.Add("prod.example.com", "operator")
	f.Add("..", "operator")
	f.Fuzz(func(t *testing.T, domain, path string) {
		id, err := identity.ParsePath(domain, path)
		if err != nil {
			return
		}
		if id.Path() != path || id.TrustDomain != domain {
			t.Fatalf("%q of %q became %q of %q", path, domain, id.Path(), id.TrustDomain)
		}
		file := id.FileName()
		if filepath.Base(file) != file || file == "." || file == ".." {
			t.Fatalf("%q is in the file %q", path, file)
		}
		role, namespace, _ := strings.Cut(file, "@")
		if want := id.Namespace; namespace != want || strings.ReplaceAll(role, "-", "/") != strings.ReplaceAll(identity.ID{Role: id.Role, Name: id.Name}.Path(), "-", "/") {
			t.Fatalf("%q is in the file %q", path, file)
		}
		if back, err := identity.FromCertificate(&x509.Certificate{URIs: []*url.URL{id.URI()}}); err != nil || back != id {
			t.Fatalf("the certificate of %v is of %v, %v", id, back, err)
		}
	})
}

// FuzzCertificateURI checks that a certificate has an identity only if its URI is exactly the URI of
// that identity: without query, user, port or other spellings.
func FuzzCertificateURI(f *testing.F) {
	for _, uri := range []string{
		"spiffe://portolan/registry", "spiffe://portolan/nodeagent/n1", "spiffe://portolan/operator?x=1", "spiffe://portolan/%6fperator", "spiffe://u@portolan/operator",
		"spiffe://portolan/operator#x", "spiffe://portolan:1/operator", "SPIFFE://portolan/operator", "spiffe:///operator", "spiffe://portolan//operator", "https://portolan/operator",
	} {
		f.Add(uri)
	}
	f.Fuzz(func(t *testing.T, text string) {
		uri, err := url.Parse(text)
		if err != nil {
			return
		}
		id, err := identity.FromCertificate(&x509.Certificate{URIs: []*url.URL{uri}})
		if err == nil && (id.String() != uri.String() || id.Validate() != nil) {
			t.Fatalf("%q is taken for %v", text, id)
		}
	})
}

// FuzzFiles reads damaged files of a certificate. Only the genuine certificate and key make a
// source, and a refusal names the flag of a file.
func FuzzFiles(f *testing.F) {
	certs := kittest.NewCertificates(f)
	files := certs.Issue("operator", 24*time.Hour)
	contents := map[string][]byte{}
	for _, path := range []string{files.Cert, files.Key, files.CA} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		contents[path] = text
	}
	f.Add(uint8(0), 0, 0, []byte{})
	f.Add(uint8(0), 40, 1, []byte("A"))
	f.Add(uint8(1), 0, 1000, []byte{})
	f.Add(uint8(2), 0, 0, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add(uint8(1), 0, 5, []byte("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, which uint8, at, leaveOut int, insert []byte) {
		damaged := files
		target := []*string{&damaged.Cert, &damaged.Key, &damaged.CA}[which%3]
		text := contents[*target]
		at = min(max(at, 0), len(text))
		rest := text[min(len(text), at+min(max(leaveOut, 0), len(text))):]
		*target = filepath.Join(dir, "damaged.pem")
		if err := os.WriteFile(*target, append(append(text[:at:at], insert...), rest...), 0o600); err != nil {
			t.Fatal(err)
		}
		source, err := identity.Open(identity.Options{Files: damaged, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tls-") || len(err.Error()) > 4096 {
				t.Fatalf("the refusal %q", err)
			}
			return
		}
		if source.ID().Path() != "operator" {
			t.Fatalf("damaged files are of %v", source.ID())
		}
	})
}
