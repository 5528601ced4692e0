package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/balancer"
)

// suiteNames are the names that OpenSSL has for the cipher suites of policies.
var suiteNames = map[uint16]string{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: "ECDHE-ECDSA-AES128-GCM-SHA256", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: "ECDHE-RSA-AES128-GCM-SHA256",
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: "ECDHE-ECDSA-AES256-GCM-SHA384", tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: "ECDHE-RSA-AES256-GCM-SHA384",
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305", tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-RSA-CHACHA20-POLY1305",
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256: "ECDHE-ECDSA-AES128-SHA256", tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256: "ECDHE-RSA-AES128-SHA256",
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: "ECDHE-ECDSA-AES128-SHA", tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA: "ECDHE-RSA-AES128-SHA",
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: "ECDHE-ECDSA-AES256-SHA", tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA: "ECDHE-RSA-AES256-SHA",
	tls.TLS_RSA_WITH_AES_128_GCM_SHA256: "AES128-GCM-SHA256", tls.TLS_RSA_WITH_AES_256_GCM_SHA384: "AES256-GCM-SHA384",
	tls.TLS_RSA_WITH_AES_128_CBC_SHA256: "AES128-SHA256", tls.TLS_RSA_WITH_AES_128_CBC_SHA: "AES128-SHA", tls.TLS_RSA_WITH_AES_256_CBC_SHA: "AES256-SHA",
}

// tripleDES is not in suiteNames, because OpenSSL as distributions build it lacks it.
const tripleDES = tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA

// lacking are suites that clouds have and Go lacks.
var lacking = []string{"ECDHE-ECDSA-AES256-SHA384", "ECDHE-RSA-AES256-SHA384", "AES256-SHA256"}

// opensslClient connects with OpenSSL's client and returns the negotiated version and cipher, or "" if the handshake
// failed.
func opensslClient(t *testing.T, addr string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "openssl", append([]string{"s_client", "-connect", addr, "-brief"}, arguments...)...)
	out, _ := command.CombinedOutput() // its output says all that its exit code says
	version, cipher := "", ""
	for line := range bytes.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(string(line)), ": "); ok && name == "Protocol version" {
			version = value
		} else if ok && name == "Ciphersuite" {
			cipher = value
		}
	}
	if !bytes.Contains(out, []byte("CONNECTION ESTABLISHED")) {
		return ""
	}
	return version + " " + cipher
}

// TestPoliciesWithOpenSSL tries every version of TLS and every cipher suite at a port of each policy. If policies have
// the same suites, it tries them with OpenSSL's client for the first policy only, because each try is a process.
func TestPoliciesWithOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		const msg = "no openssl here: install it (Debian: apt-get install openssl)"
		if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	s := newStore(t, "")
	setSecrets(s, map[string]pair{"rsa": newPair(t, "rsa", true, later(), "web.example"), "ecdsa": newPair(t, "ecdsa", false, later(), "web.example")})
	tried := map[string]bool{}
	for _, name := range append(balancer.PolicyNames(), "") {
		t.Run(name, func(t *testing.T) {
			policy, _ := balancer.PolicyOf(name)
			settings := withCerts(secretRef("rsa"), secretRef("ecdsa"))
			settings.TLSPolicy = name
			addr := listen(t, s.Server("shop", settings, false))
			for flag, version := range map[string]uint16{"-tls1": tls.VersionTLS10, "-tls1_1": tls.VersionTLS11, "-tls1_2": tls.VersionTLS12, "-tls1_3": tls.VersionTLS13} {
				got := opensslClient(t, addr, flag, "-cipher", "ALL:@SECLEVEL=0")
				if want := policy.MinVersion <= version && version <= policy.MaxVersion; (got != "") != want {
					t.Errorf("%s: %q, want a connection: %v", flag, got, want)
				}
			}
			// A client that knows every version gets the highest one.
			highest := map[uint16]string{tls.VersionTLS12: "TLSv1.2", tls.VersionTLS13: "TLSv1.3"}[policy.MaxVersion]
			if got := opensslClient(t, addr); !strings.HasPrefix(got, highest+" ") {
				t.Errorf("all versions: %q, want %s", got, highest)
			}
			checkSuites(t, addr, policy)
			if list := fmt.Sprint(policy.Suites); !tried[list] && policy.MinVersion <= tls.VersionTLS12 {
				tried[list] = true
				checkSuitesWithOpenSSL(t, addr, policy)
			}
		})
	}
}

// checkSuites offers each suite by itself.
func checkSuites(t *testing.T, addr string, policy balancer.TLSPolicy) {
	t.Helper()
	for _, suite := range append(slices.Collect(maps.Keys(suiteNames)), tripleDES) {
		config := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}
		state, err := dial(addr, config)
		if want := slices.Contains(policy.Suites, suite); (err == nil) != want || err == nil && state.CipherSuite != suite {
			t.Errorf("%s: %v, want it to be there: %v", tls.CipherSuiteName(suite), err, want)
		}
	}
}

// checkSuitesWithOpenSSL offers each suite of a policy by itself, and then all others together.
func checkSuitesWithOpenSSL(t *testing.T, addr string, policy balancer.TLSPolicy) {
	t.Helper()
	others := slices.Clone(lacking)
	for suite, name := range suiteNames {
		if !slices.Contains(policy.Suites, suite) {
			others = append(others, name)
		} else if got := opensslClient(t, addr, "-tls1_2", "-cipher", name+":@SECLEVEL=0"); got != "TLSv1.2 "+name {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := opensslClient(t, addr, "-tls1_2", "-cipher", strings.Join(others, ":")+":@SECLEVEL=0"); got != "" {
		t.Errorf("none of %q is in the policy: %q", others, got)
	}
}
