package changes_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/services/changes"
)

func TestEncodeToken(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "_",
		"web":              "web",
		"Service":          "Service",
		"web-1":            "web-1",
		"web.example":      "web=2Eexample",
		"web.17a3f":        "web=2E17a3f",
		"_":                "=5F",
		"a=b":              "a=3Db",
		"*":                "=2A",
		">":                "=3E",
		"a b\n":            "a=20b=0A",
		"\u00fc":           "=C3=BC",
		"default/web.http": "default=2Fweb=2Ehttp",
	} {
		if got := changes.EncodeToken(in); got != want {
			t.Errorf("EncodeToken(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestTokensAreDistinct checks that two names never share a subject, and that an encoded name is
// always one token.
func TestTokensAreDistinct(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=_.A-F0-9]{0,6}`))
		a, b := name.Draw(rt, "a"), name.Draw(rt, "b")
		x, y := changes.EncodeToken(a), changes.EncodeToken(b)
		if (a == b) != (x == y) {
			rt.Fatalf("%q is %q, %q is %q", a, x, b, y)
		}
		if x == "" || strings.ContainsAny(x, ".*> \t\r\n") {
			rt.Fatalf("%q is %q, which is no token", a, x)
		}
	})
}
