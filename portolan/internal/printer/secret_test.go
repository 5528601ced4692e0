package printer

import (
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/spec"
)

// TestSecretsArePrintedWithoutTheirData prints a certificate and another Secret as a table and in words.
func TestSecretsArePrintedWithoutTheirData(t *testing.T) {
	a, err := authority.New("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Issue(authority.Request{ID: identity.ID{TrustDomain: "test", Role: identity.Monitor}, Hosts: []string{"web.example", "192.0.2.1"}, Lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	cert := &corev1.Secret{Metadata: meta("web", time.Minute), Type: spec.SecretTypeTLS, Data: map[string][]byte{spec.SecretCert: pair.Cert, spec.SecretKey: pair.Key}}
	other := &corev1.Secret{Metadata: meta("other", time.Minute), Type: spec.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("hunter2")}}
	var table, words strings.Builder
	kind, _ := kinds.Named("Secret")
	rows := NewTable(&table, kind, Options{Now: now, Wide: true})
	for _, secret := range []*corev1.Secret{cert, other} {
		rows.Row(secret)
		if err := Describe(&words, secret, Related{Now: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Flush(); err != nil {
		t.Fatal(err)
	}
	all := squeeze(table.String() + words.String())
	for _, part := range []string{"kubernetes.io/tls 2", "web.example,192.0.2.1", "(expired)", "password: 7 bytes", "other Opaque 1 "} {
		if !strings.Contains(all, part) {
			t.Errorf("lacks %q:\n%s", part, all)
		}
	}
	if strings.Contains(all, "hunter2") || strings.Contains(all, "PRIVATE KEY") {
		t.Errorf("has the data:\n%s", all)
	}
}
