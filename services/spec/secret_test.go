package spec_test

import (
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// newPair returns a certificate with its key, and the certificate of its authority.
func newPair(t *testing.T) (cert, key, ca string) {
	t.Helper()
	a, err := authority.New("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Issue(authority.Request{ID: identity.ID{TrustDomain: "test", Role: identity.Monitor}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return string(pair.Cert), string(pair.Key), string(a.Pair().Cert)
}

func TestValidateSecret(t *testing.T) {
	cert, key, ca := newPair(t)
	otherCert, otherKey, _ := newPair(t)
	mangled := strings.Replace(cert, "MII", "MIH", 1)
	type data map[string]string
	for name, test := range map[string]struct {
		kind string
		data data
		want []string
	}{
		"anything":           {"", data{"a": "", "B-_.9": "x", ".dot": "y"}, nil},
		"nothing":            {"example.com/any", nil, nil},
		"long type":          {strings.Repeat("x", 254), nil, []string{"type TOO_LONG"}},
		"names":              {"", data{"": "x", "a b": "x", "..a": "x", ".": "x", strings.Repeat("a", 254): "x"}, []string{"data INVALID", "data INVALID", "data INVALID", "data INVALID", "data INVALID"}},
		"certificate":        {spec.SecretTypeTLS, data{"tls.crt": cert, "tls.key": key}, nil},
		"chain and more":     {spec.SecretTypeTLS, data{"tls.crt": cert + ca, "tls.key": key, "ca.crt": ca + otherCert, "note": "x"}, nil},
		"no certificate":     {spec.SecretTypeTLS, nil, []string{"data[tls.crt] REQUIRED", "data[tls.key] REQUIRED"}},
		"no key":             {spec.SecretTypeTLS, data{"tls.crt": cert}, []string{"data[tls.key] REQUIRED"}},
		"no PEM":             {spec.SecretTypeTLS, data{"tls.crt": "x", "tls.key": "y"}, []string{"data[tls.crt] INVALID"}},
		"key that is no key": {spec.SecretTypeTLS, data{"tls.crt": cert, "tls.key": "y"}, []string{"data[tls.key] INVALID"}},
		"mangled":            {spec.SecretTypeTLS, data{"tls.crt": mangled, "tls.key": key}, []string{"data[tls.crt] INVALID"}},
		"another's key":      {spec.SecretTypeTLS, data{"tls.crt": cert, "tls.key": otherKey}, []string{"data[tls.key] INVALID"}},
		"swapped":            {spec.SecretTypeTLS, data{"tls.crt": key, "tls.key": cert}, []string{"data[tls.crt] INVALID"}},
		"empty ca":           {spec.SecretTypeTLS, data{"tls.crt": cert, "tls.key": key, "ca.crt": ""}, []string{"data[ca.crt] INVALID"}},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "s"}, Type: test.kind, Data: map[string][]byte{}}
			for name, text := range test.data {
				secret.Data[name] = []byte(text)
			}
			found := admit(secret, dualStack, spec.Rules{})
			expect(t, found, test.want...)
			for _, violation := range found {
				for line := range strings.Lines(key + otherKey) {
					if len(line) > 40 && strings.Contains(violation.Message, strings.TrimSpace(line)) {
						t.Errorf("%s has a part of a key: %s", violation.Field, violation.Message)
					}
				}
			}
		})
	}
}

func TestTypeOfASecretStays(t *testing.T) {
	cert, key, _ := newPair(t)
	old := &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "s"}}
	expect(t, admit(old, dualStack, spec.Rules{}))
	if old.GetType() != spec.SecretTypeOpaque {
		t.Errorf("the default type is %q", old.GetType())
	}
	updated := &corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "s"}, Type: spec.SecretTypeTLS, Data: map[string][]byte{"tls.crt": []byte(cert), "tls.key": []byte(key)}}
	expect(t, admitUpdate(updated, old, dualStack), "type IMMUTABLE")
	expect(t, admitUpdate(&corev1.Secret{Metadata: &corev1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"a": nil}}, old, dualStack))
}
