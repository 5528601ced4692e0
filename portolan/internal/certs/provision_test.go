package certs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func provision(t *testing.T, dir, text string) []Certificate {
	t.Helper()
	p, err := ReadProvision(strings.NewReader(strings.ReplaceAll(text, "DIR", dir)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := p.Provision(filepath.Join(dir, "authority"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestProvision checks that a first run makes everything, a second one nothing, and later ones the
// added certificates and those that expire soon.
func TestProvision(t *testing.T) {
	dir := t.TempDir()
	const first = `
trustDomain: example.org
certificates:
- {who: registry, folder: DIR/registry}
- {who: nats, hosts: [nats1], folder: DIR/nats}
nats: {file: DIR/nats/portolan.conf}
`
	if list := provision(t, dir, first); len(list) != 5 || slices.ContainsFunc(list, func(c Certificate) bool { return !c.Written }) {
		t.Errorf("at first: %+v", list)
	}
	for _, name := range []string{"registry/registry.crt", "registry/ca.crt", "nats/nats.key"} {
		if read(t, filepath.Join(dir, name)) != read(t, filepath.Join(dir, "authority", filepath.Base(name))) {
			t.Errorf("%s is not the authority's", name)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if exists(filepath.Join(dir, "registry", "ca.key")) || exists(filepath.Join(dir, "registry", "nats.key")) {
		t.Error("a folder has a key that is not its own")
	}
	if conf := read(t, filepath.Join(dir, "nats/portolan.conf")); !strings.Contains(conf, "spiffe://example.org/registry") || !strings.Contains(conf, filepath.Join(dir, "nats", "nats.crt")) {
		t.Errorf("configuration of NATS:\n%s", conf)
	}
	before := read(t, filepath.Join(dir, "registry/registry.crt"))
	for _, one := range provision(t, dir, first) {
		if one.Written {
			t.Errorf("the second time %s was written", one.Name)
		}
	}
	more := strings.Replace(first, "certificates:", "renewWithinDays: 91\ncertificates:\n- {who: nodeagent/n1, folder: DIR/n1}\n- {who: registrar/n1/shop, folder: DIR/n1}", 1)
	for _, one := range provision(t, dir, more) {
		if !one.Written || time.Until(one.Expires) < 23*time.Hour {
			t.Errorf("%+v is old", one)
		}
	}
	if read(t, filepath.Join(dir, "registry/registry.crt")) == before {
		t.Error("the renewed certificate is not in its place")
	}
	if conf := read(t, filepath.Join(dir, "nats/portolan.conf")); !strings.Contains(conf, "nodeagent/n1") || !strings.Contains(conf, "registrar/n1/shop") {
		t.Errorf("the new node may not talk to NATS:\n%s", conf)
	}
	if read(t, filepath.Join(dir, "n1/registrar-n1@shop.crt")) == read(t, filepath.Join(dir, "n1/nodeagent-n1.crt")) {
		t.Error("the registrar has the agent's certificate")
	}
}

func TestProvisionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"certificates: [{who: registry}]":                 "folder",
		"certificate: []":                                 "certificate",
		"certificates: []":                                "empty",
		"certificates: [{who: x, folder: /f, owner: -1}]": "owner",
	} {
		if _, err := ReadProvision(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %q", text, err, want)
		}
	}
	p := &Provision{Certificates: []Placement{{Role: "king", Folder: t.TempDir()}}}
	if _, err := p.Provision(filepath.Join(t.TempDir(), "authority")); err == nil || !strings.Contains(err.Error(), "certificates[0].who") {
		t.Errorf("a role that there is not: %v", err)
	}
}
