package certs_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/changes"
)

// TestRevokedIdentitiesAreLeftOut revokes identities in a folder. They must be missing in
// the configuration of NATS until the folder has new certificates of them.
func TestRevokedIdentitiesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	requests := []certs.Request{{Role: "nodeagent/n1", Lifetime: time.Hour}, {Role: "nodeagent/n2", Lifetime: time.Hour}, {Role: "dnssvc", Lifetime: time.Hour}}
	_, err := certs.Init(dir, "portolan", time.Hour, requests, false)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := certs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	has := func(who string, want bool) {
		t.Helper()
		text, err := folder.NATSConfig(certs.NATSOptions{Prefix: changes.DefaultPrefix, Path: dir, Nodes: []string{"n9"}})
		if err != nil || strings.Contains(text, `"spiffe://portolan/`+who+`"`) != want {
			t.Errorf("%s in the configuration: want %t, error %v\n%s", who, want, err, text)
		}
	}
	record := func(r certs.Revoked) {
		t.Helper()
		if err := folder.RecordRevoked(r); err != nil {
			t.Fatal(err)
		}
	}
	states := func() map[string]certs.Listed {
		t.Helper()
		list, err := folder.ListWithState()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]certs.Listed{}
		for _, one := range list {
			found[one.Name] = one
		}
		return found
	}
	for _, who := range []string{"nodeagent/n1", "nodeagent/n2", "nodeagent/n9", "dnssvc", "allocator"} {
		has(who, true)
	}
	now := time.Now()
	record(certs.Revoked{Identity: "nodeagent/n1", Time: now, Reason: "stolen"})
	record(certs.Revoked{Identity: "nodeagent/n9", Time: now})                                              // no certificate here
	record(certs.Revoked{Identity: "nodeagent/n2", Time: now.Add(-time.Minute)})                            // issued later
	record(certs.Revoked{Identity: "dnssvc", Serial: states()["dnssvc"].Serial, Time: now, Reason: "lost"}) // one certificate
	for who, want := range map[string]bool{"nodeagent/n1": false, "nodeagent/n2": true, "nodeagent/n9": false, "dnssvc": false, "allocator": true} {
		has(who, want)
	}
	for who, reason := range map[string]string{"nodeagent/n1": "stolen", "dnssvc": "lost"} {
		if got := states()[who]; !got.Revoked || got.Reason != reason {
			t.Errorf("%s is listed as %+v", who, got)
		}
	}
	if states()["nodeagent/n2"].Revoked {
		t.Error("a certificate that was issued after the revocation is listed as revoked")
	}
	if _, err := folder.Renew([]string{"nodeagent/n1", "dnssvc"}, 0, true); err != nil {
		t.Fatal(err)
	}
	has("nodeagent/n1", true)
	has("dnssvc", true)
	if states()["nodeagent/n1"].Revoked {
		t.Error("the new certificate is listed as revoked")
	}
	record(certs.Revoked{Identity: "nodeagent/n2", Time: now.Add(time.Hour)})
	if _, err := folder.Renew([]string{"nodeagent/n2"}, 0, true); err == nil || !strings.Contains(err.Error(), "set the clocks") {
		t.Errorf("a revocation in the future: %v", err)
	}
	if err := os.WriteFile(dir+"/revoked.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := folder.ListWithState(); err == nil || !strings.Contains(err.Error(), "revoked.json") {
		t.Errorf("a broken record: %v", err)
	}
}
