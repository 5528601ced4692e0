package bearer_test

import (
	"net/http"
	"strings"
	"testing"

	"portolan.dev/services/kit/bearer"
)

func TestParse(t *testing.T) {
	secret := bearer.NewSecret()
	for _, name := range []string{"ci", "a.b-c", strings.Repeat("a", 253)} {
		if got, its, ok := bearer.Parse(bearer.Text(name, secret)); got != name || its != secret || !ok {
			t.Errorf("%q: %q, %q, %v", name, got, its, ok)
		}
	}
	for _, text := range []string{
		"", "portolan.", "portolan..", secret, "portolan." + secret, "portolan.." + secret, "ci." + secret, "Portolan.ci." + secret,
		bearer.Text("ci", secret[1:]), bearer.Text("ci", secret+"a"), bearer.Text("ci", ""), bearer.Text(strings.Repeat("a", 254), secret),
	} {
		if name, its, ok := bearer.Parse(text); ok || name+its != "" {
			t.Errorf("%q is the token %q", text, name)
		}
	}
}

// TestSecretsDiffer checks that secrets are random and long, and that their hashes differ.
func TestSecretsDiffer(t *testing.T) {
	seen := map[[32]byte]bool{}
	for range 1000 {
		secret := bearer.NewSecret()
		if len(secret) != 43 || strings.Contains(secret, ".") || seen[bearer.Sum(secret)] {
			t.Fatalf("the secret %q", secret)
		}
		seen[bearer.Sum(secret)] = true
	}
}

func TestFromRequest(t *testing.T) {
	for _, c := range []struct {
		values []string
		text   string
		sent   bool
	}{
		{nil, "", false},
		{[]string{"Bearer x"}, "x", true},
		{[]string{"bEARER  x "}, "x", true},
		{[]string{"Bearer"}, "", true},
		{[]string{"Basic x"}, "", true},
		{[]string{"Bearerx"}, "", true},
		{[]string{""}, "", true},
		{[]string{"Bearer x", "Bearer x"}, "", true},
	} {
		text, sent := bearer.FromRequest(&http.Request{Header: http.Header{"Authorization": c.values}})
		if text != c.text || sent != c.sent {
			t.Errorf("%q: %q, %v", c.values, text, sent)
		}
	}
}
