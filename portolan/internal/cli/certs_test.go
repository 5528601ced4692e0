package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
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
		least := 23 * time.Hour
		if slices.Contains([]string{"ca", "issuer", "routes-ca", "nats", "natsroute", "postgres"}, one.Name) {
			least = 80 * 24 * time.Hour
		}
		if left := time.Until(one.Expires); left < least || least < 24*time.Hour && left > 24*time.Hour {
			t.Errorf("%s expires on %s", one.Name, one.Expires)
		}
	}
	if len(names) != 17 || !strings.HasPrefix(strings.Join(names["nats"], " "), "nats-1 nats-2 localhost") || len(names["operator"]) != 0 || names["nodeagent/n1"] == nil {
		t.Errorf("made %v", names)
	}
	if code, _, errOut := run(t, "", "certs", "issue", "operator/shop", "--certs", dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"init again":     {[]string{"certs", "init", "--certs", dir}, 1, "ca.crt is there already"},
		"issue again":    {[]string{"certs", "issue", "operator/shop", "--certs", dir}, 1, "portolan certs renew operator/shop"},
		"odd role":       {[]string{"certs", "issue", "king", "--certs", dir}, 1, "roles are registry"},
		"no role":        {[]string{"certs", "issue", "--certs", dir}, 2, "ROLE[/NAME]"},
		"no lifetime":    {[]string{"certs", "issue", "viewer/x", "--lifetime", "0d", "--certs", dir}, 2, "want a time from 1s to 36500d"},
		"odd output":     {[]string{"certs", "renew", "-o", "xml", "--certs", dir}, 2, "outputs are table, json"},
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

// TestRevokeWithoutARegistry revokes an agent's certificate while no registry answers. The command
// must record it for NATS, name the step that failed, and fail.
func TestRevokeWithoutARegistry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	if code, _, errOut := run(t, "", "certs", "init", "--certs", dir, "--node", "n1"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut)
	}
	closed := kittest.Listen(t)
	closed.Close()
	revoke := func(args ...string) (int, string, string) {
		return run(t, "", append([]string{"certs", "revoke", "--certs", dir, "--server", closed.Addr().String(), "--timeout", "5s"}, args...)...)
	}
	code, out, errOut := revoke("nodeagent/n1", "--reason", "stolen")
	for _, want := range []string{"NOT revoked: all certificates of nodeagent/n1", "Recorded in the folder", "run this command again when the registry answers", "portolan certs issue nodeagent/n1 --force"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want %q:\n%s", code, want, out)
		}
	}
	if !strings.Contains(errOut, "error: not stored in the registry: ") {
		t.Errorf("the error is %q", errOut)
	}
	code, out, _ = revoke(filepath.Join(dir, "dnssvc.crt"), "-o", "json")
	var result struct {
		Identity, Serial, Revocation, Error string
		Recorded                            bool
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 1 || result.Identity != "dnssvc" || result.Serial == "" || result.Revocation != "" || result.Error == "" || !result.Recorded {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	if code, out, errOut := run(t, "", "certs", "list", "--certs", dir); code != 0 || strings.Count(out, "  revoked  ") != 2 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	if code, out, _ := run(t, "", "certs", "nats-config", "--certs", dir); code != 0 || strings.Contains(out, `portolan/nodeagent/n1"`) || strings.Contains(out, `portolan/dnssvc"`) {
		t.Errorf("exit code %d, the revoked identities may use NATS:\n%s", code, out)
	}
	for want, args := range map[string][]string{
		"want one ROLE[/NAME] or FILE.crt, or --serial HEX": {},
		"role \"king\" is not known":                        {"king"},
		"up to 40 hexadecimal digits":                       {"--serial", "xyz"},
		"no such file":                                      {filepath.Join(dir, "absent.crt")},
		"outputs are table, json":                           {"operator", "-o", "xml"},
	} {
		if code, _, errOut := revoke(args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: exit code %d, want %q:\n%s", args, code, want, errOut)
		}
	}
}
