package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCertsFromTheCommandLine runs the commands of a first installation, and wrong commands.
func TestCertsFromTheCommandLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	code, out, errOut := run(t, "", "certs", "init", "--certs", dir, "--node", "n1", "--host", "nats=nats-1,nats-2", "-o", "json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	var made []struct {
		Name, ID string
		Hosts    []string
		Expires  time.Time
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, one := range made {
		names[one.Name] = one.Hosts
		if time.Until(one.Expires) < 80*24*time.Hour {
			t.Errorf("%s expires on %s", one.Name, one.Expires)
		}
	}
	if len(names) != 10 || !strings.HasPrefix(strings.Join(names["nats"], " "), "nats-1 nats-2 localhost") || len(names["operator"]) != 0 || names["nodeagent/n1"] == nil {
		t.Errorf("made %v", names)
	}
	if code, _, errOut := run(t, "", "certs", "issue", "operator/ann", "--certs", dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"init again":     {[]string{"certs", "init", "--certs", dir}, 1, "ca.crt is there already"},
		"issue again":    {[]string{"certs", "issue", "operator/ann", "--certs", dir}, 1, "portolan certs renew operator/ann"},
		"odd role":       {[]string{"certs", "issue", "king", "--certs", dir}, 1, "roles are registry"},
		"no role":        {[]string{"certs", "issue", "--certs", dir}, 2, "ROLE[/NAME]"},
		"no days":        {[]string{"certs", "issue", "viewer/x", "--days", "0", "--certs", dir}, 2, "--days 0: want 1-36500"},
		"odd output":     {[]string{"certs", "renew", "-o", "xml", "--certs", dir}, 2, "outputs are table and json"},
		"odd host":       {[]string{"certs", "init", "--host", "nats", "--certs", dir + "2"}, 2, "want ROLE=HOST"},
		"nobody's host":  {[]string{"certs", "init", "--host", "king=x", "--certs", dir + "2"}, 2, "--host king=…"},
		"renew nobody":   {[]string{"certs", "renew", "viewer/x", "--certs", dir}, 1, "portolan certs issue viewer/x makes one"},
		"no folder":      {[]string{"certs", "renew", "--certs", dir + "2"}, 1, "portolan certs init makes an authority"},
		"use no folder":  {[]string{"get", "services", "--certs", dir + "2"}, 1, "has no operator.crt and no viewer.crt"},
		"use no key":     {[]string{"get", "services", "--tls-cert", filepath.Join(dir, "viewer.crt")}, 1, "tls-key: not given"},
		"wrong key":      {[]string{"get", "services", "--tls-cert", filepath.Join(dir, "viewer.crt"), "--tls-key", filepath.Join(dir, "ca.key"), "--tls-ca", filepath.Join(dir, "ca.crt")}, 1, "does not go with tls-cert"},
		"other domain":   {[]string{"get", "services", "--certs", dir, "--trust-domain", "prod"}, 1, "not of the trust domain prod"},
		"nats, odd node": {[]string{"certs", "nats-config", "--node", "a/b", "--certs", dir}, 1, `name "a/b"`},
		"nats, prefix":   {[]string{"certs", "nats-config", "--nats-prefix", "a b", "--certs", dir}, 1, `prefix "a b"`},
	} {
		code, _, errOut := run(t, "", c.args...)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", name, code, c.code, c.want, errOut)
		}
	}
	code, out, errOut = run(t, "", "certs", "nats-config", "--certs", dir, "--path", "/etc/nats/certs", "--node", "n9")
	for _, want := range []string{`cert_file: "/etc/nats/certs/nats.crt"`, "verify_and_map: true", `user: "spiffe://portolan/nodeagent/n1"`, `allow: ["portolan.hb.n9"]`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q:\n%s%s", code, want, out, errOut)
		}
	}
}
