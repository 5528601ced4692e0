package workload

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNamesFor(t *testing.T) {
	names := ResolverConfigFor([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, "shop", "cluster.local.", []string{"example.com", "cluster.local"})
	want := "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n" +
		"search shop.svc.cluster.local svc.cluster.local cluster.local example.com\noptions ndots:5\n"
	if got := names.ResolvConf(); got != want {
		t.Errorf("resolv.conf\n%swant\n%s", got, want)
	}
	t.Setenv("RES_OPTIONS", "rotate")
	if got := names.environment(); !slices.Equal(got, []string{"LOCALDOMAIN=shop.svc.cluster.local svc.cluster.local cluster.local example.com"}) {
		t.Errorf("environment %q", got)
	}
}

func TestSearchPathOfTheHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	for text, want := range map[string][]string{
		"nameserver 192.0.2.1\n":                           nil,
		"domain example.com\nsearch a.example b.example\n": {"a.example", "b.example"},
		"search .\n": {},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := searchOf(path); !slices.Equal(got, want) {
			t.Errorf("%q: search path %q, want %q", text, got, want)
		}
	}
	if got := searchOf(path + ".not"); got != nil {
		t.Errorf("no file: %q", got)
	}
}
