package registry_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// newCertificate returns a Secret with a certificate that is valid between two times.
func newCertificate(t *testing.T, from, to time.Time) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"web.example"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "web"}, Type: spec.SecretTypeTLS, Data: map[string][]byte{
		spec.SecretCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		spec.SecretKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}),
	}}
}

// TestSecrets stores certificates, which get a warning if they are not valid now, and refuses data that
// is too large or no certificate.
func TestSecrets(t *testing.T) {
	_, r := run(t)
	secrets, now := registryv1.NewSecretServiceClient(r), time.Now()
	for _, test := range []struct {
		from, to time.Time
		warning  string
	}{
		{now.Add(-time.Hour), now.Add(time.Hour), ""},
		{now.Add(-2 * time.Hour), now.Add(-time.Hour), "the certificate in data[tls.crt] expired on "},
		{now.Add(time.Hour), now.Add(2 * time.Hour), "the certificate in data[tls.crt] is valid from "},
	} {
		secret := newCertificate(t, test.from, test.to)
		answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(secret)})
		if err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(answer.GetWarnings(), "\n"); !strings.HasPrefix(warnings, test.warning) || (warnings == "") != (test.warning == "") {
			t.Errorf("warnings %q, want %q", warnings, test.warning)
		}
		stored, err := secrets.GetSecret(within(t), &registryv1.GetSecretRequest{Name: "web", MinRevision: answer.GetObject().GetSecret().GetMetadata().GetResourceVersion()})
		if err != nil || !bytes.Equal(stored.GetSecret().GetData()[spec.SecretKey], secret.Data[spec.SecretKey]) {
			t.Errorf("stored %v, %v", stored, err)
		}
	}
	create := func(secret *corev1.Secret) error {
		_, err := secrets.CreateSecret(within(t), &registryv1.CreateSecretRequest{Secret: secret})
		return err
	}
	large := &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "large"}, Data: map[string][]byte{"a": make([]byte, 64<<10)}}
	if err := create(large); err == nil {
		t.Error("data of 64 KiB is stored")
	}
	large.Data["a"] = large.Data["a"][:63<<10]
	if err := create(large); err != nil {
		t.Errorf("data of 63 KiB: %v", err)
	}
	bad := newCertificate(t, now, now.Add(time.Hour))
	bad.Metadata.Name, bad.Data[spec.SecretKey] = "bad", []byte("nonsense")
	if err := create(bad); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "data[tls.key]") || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a key that is none: %v", err)
	}
}
