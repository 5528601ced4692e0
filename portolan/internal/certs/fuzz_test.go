package certs

import (
	"bytes"
	"reflect"
	"testing"

	"gopkg.in/yaml.v3"
)

// FuzzProvision reads any list of certificates. An accepted list names a role and a folder in each
// entry, and stays the same when it is written and read again.
func FuzzProvision(f *testing.F) {
	for _, text := range []string{
		"trustDomain: portolan\ncertificates:\n- {who: registry, folder: /etc/portolan/tls, owner: 7}\n- {who: nats, hosts: [nats-1.example.com], folder: /etc/nats/tls}\nnats: {file: /etc/nats/portolan.conf, path: /etc/nats/tls}\n",
		"certificates: []\n", "certificates: [{who: a, folder: b, owner: -1}]\ndays: -1\n", "a: &a [*a]", "certificates: [null]", "days: 1e9\ncertificates: [{who: a, folder: b}]", "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadProvision(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range p.Certificates {
			if c.Role == "" || c.Folder == "" || c.Owner != nil && *c.Owner < 0 {
				t.Fatalf("%q is accepted: %+v", text, c)
			}
		}
		written, err := yaml.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadProvision(bytes.NewReader(written))
		if err != nil {
			t.Fatalf("%q\nwritten as\n%s\nis refused: %v", text, written, err)
		}
		if twice, err := yaml.Marshal(again); err != nil || !reflect.DeepEqual(twice, written) {
			t.Fatalf("%s\nbecame\n%s, %v", written, twice, err)
		}
	})
}
