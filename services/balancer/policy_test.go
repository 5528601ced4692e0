package balancer

import (
	"crypto/tls"
	"slices"
	"testing"
)

// Every policy has a name of its own, versions in order, suites that Go has, and no suite twice.
func TestPolicies(t *testing.T) {
	known := map[uint16]bool{}
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		known[suite.ID] = true
	}
	seen := map[string]bool{}
	for _, name := range PolicyNames() {
		p, ok := PolicyOf(name)
		if !ok || p.Name != name || seen[name] {
			t.Errorf("PolicyOf(%q) = %v, %v", name, p, ok)
		}
		seen[name] = true
		if p.MinVersion > p.MaxVersion || p.MinVersion < tls.VersionTLS10 {
			t.Errorf("%s: versions %x to %x", name, p.MinVersion, p.MaxVersion)
		}
		if (len(p.Suites) == 0) != (p.MinVersion == tls.VersionTLS13) {
			t.Errorf("%s: %d suites with versions from %x: Go would choose its own", name, len(p.Suites), p.MinVersion)
		}
		for i, suite := range p.Suites {
			if !known[suite] || slices.Contains(p.Suites[:i], suite) {
				t.Errorf("%s: suite %s is unknown or there twice", name, tls.CipherSuiteName(suite))
			}
		}
	}
}

func TestPolicyOf(t *testing.T) {
	if p, ok := PolicyOf(""); !ok || p.Name != DefaultPolicy || p.MinVersion != tls.VersionTLS12 {
		t.Errorf("no name: %+v, %v", p, ok)
	}
	if _, ok := PolicyOf("ELBSecurityPolicy-1999-12"); ok {
		t.Error("a policy that nobody knows is in the table")
	}
}
