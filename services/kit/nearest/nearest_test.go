package nearest_test

import (
	"testing"

	"portolan.dev/services/kit/nearest"
)

func TestName(t *testing.T) {
	known := []string{"lease", "lease-name", "store", "check-config", "clusterIP", "ports", "ttl"}
	for name, want := range map[string]string{
		"leese":              "lease",
		"stroe":              "store",
		"lease-nam":          "lease-name",
		"clusterip":          "clusterIP",
		"Ports":              "ports",
		"check":              "check-config", // abbreviated
		"tl":                 "ttl",
		"t":                  "", // every letter would differ
		"":                   "",
		"colour":             "",
		"entirely-different": "",
	} {
		if got := nearest.Name(name, known); got != want {
			t.Errorf("Name(%q) = %q, want %q", name, got, want)
		}
	}
}
