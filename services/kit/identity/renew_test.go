package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// installation is an authority and an issuer, with files of certificates.
type installation struct {
	t         *testing.T
	dir       string
	authority *authority.Authority
	issuer    *authority.Authority
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	const years = 5 * 365 * 24 * time.Hour
	a, err := authority.New("portolan", years)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := authority.NewIssuer("portolan", years)
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{t: t, dir: t.TempDir(), authority: a, issuer: issuer}
	write(t, i.path("ca.crt"), slices.Concat(a.Pair().Cert, issuer.Pair().Cert))
	return i
}

func (i *installation) path(name string) string { return filepath.Join(i.dir, name) }

func (i *installation) files() identity.Files {
	return identity.Files{Cert: i.path("tls.crt"), Key: i.path("tls.key"), CA: i.path("ca.crt")}
}

// pair issues a certificate, with its key.
func (i *installation) pair(by *authority.Authority, who string, lifetime time.Duration) authority.Pair {
	i.t.Helper()
	id, err := identity.ParsePath("portolan", who)
	if err != nil {
		i.t.Fatal(err)
	}
	pair, err := by.Issue(authority.Request{ID: id, Lifetime: lifetime})
	if err != nil {
		i.t.Fatal(err)
	}
	return pair
}

// configure writes the configured files.
func (i *installation) configure(pair authority.Pair) {
	i.t.Helper()
	write(i.t, i.files().Key, pair.Key)
	write(i.t, i.files().Cert, pair.Cert)
}

// renewer signs requests as a registry does.
func (i *installation) renewer(who string, lifetime time.Duration) identity.SignFunc {
	return func(_ context.Context, request []byte) ([]byte, error) {
		id, err := identity.ParsePath("portolan", who)
		if err != nil {
			return nil, err
		}
		parsed, err := x509.ParseCertificateRequest(request)
		if err != nil {
			return nil, err
		}
		return i.issuer.IssueFor(authority.Request{ID: id, Lifetime: lifetime}, parsed.PublicKey)
	}
}

// store is a folder of renewed certificates.
func (i *installation) store() identity.Folder { return identity.Folder(i.path("renewed")) }

// serialOf returns the serial number of the certificate in PEM data.
func serialOf(t *testing.T, data []byte) string {
	t.Helper()
	cert, err := authority.ParseCert(data)
	if err != nil {
		t.Fatal(err)
	}
	return cert.SerialNumber.Text(16)
}

func serialIn(source *identity.Source) string { return source.Certificate().SerialNumber.Text(16) }

// TestNewerOfConfiguredAndStoredCertificate starts with several configured and stored certificates.
// The later one that is valid and of the configured identity is used.
func TestNewerOfConfiguredAndStoredCertificate(t *testing.T) {
	i := newInstallation(t)
	// A certificate with a short life begins later, because it is backdated by less.
	early, late, expired := i.pair(i.authority, "dnssvc", time.Hour), i.pair(i.authority, "dnssvc", 10*time.Minute), i.pair(i.authority, "dnssvc", -time.Second)
	renewedEarly, renewedLate, renewedExpired := i.pair(i.issuer, "dnssvc", time.Hour), i.pair(i.issuer, "dnssvc", 10*time.Minute), i.pair(i.issuer, "dnssvc", -time.Second)
	other := i.pair(i.issuer, "allocator", 10*time.Minute)
	for name, c := range map[string]struct {
		configured, stored authority.Pair
		want               []byte // certificate
		log                string
		err                string
	}{
		"the stored one is later":      {early, renewedLate, renewedLate.Cert, "", ""},
		"the configured one is later":  {late, renewedEarly, late.Cert, "", ""},
		"the configured one expired":   {expired, renewedEarly, renewedEarly.Cert, "", ""},
		"the stored one expired":       {early, renewedExpired, early.Cert, "expired on", ""},
		"both expired":                 {expired, renewedExpired, nil, "", "expired on"},
		"the stored one is another's":  {early, other, early.Cert, "is spiffe://portolan/allocator", ""},
		"nothing is stored":            {early, authority.Pair{}, early.Cert, "", ""},
		"nothing is stored, expired":   {expired, authority.Pair{}, nil, "", "portolan certs renew"},
		"the stored one is no pair":    {early, authority.Pair{Cert: []byte("junk")}, early.Cert, "has no certificate in PEM", ""},
		"the stored one lacks its key": {early, authority.Pair{Cert: renewedLate.Cert, Key: renewedEarly.Key}, early.Cert, "does not go with", ""},
	} {
		i.configure(c.configured)
		if err := os.RemoveAll(string(i.store())); err != nil {
			t.Fatal(err)
		}
		if c.stored.Cert != nil {
			if err := i.store().Save(identity.ID{TrustDomain: "portolan", Role: identity.DNSSvc}, c.stored.Cert, c.stored.Key); err != nil {
				t.Fatal(err)
			}
		}
		log := &record{}
		source, err := identity.Open(identity.Options{Files: i.files(), Store: i.store(), Log: slog.New(slog.NewTextHandler(log, nil))})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := serialIn(source), serialOf(t, c.want); got != want {
			t.Errorf("%s: the certificate %s is used, want %s", name, got, want)
		}
		if !strings.Contains(log.String(), c.log) {
			t.Errorf("%s: the log lacks %q:\n%s", name, c.log, log)
		}
	}
}

// TestRenewalIsUsedAtOnceAndStored checks a renewal, the files that it leaves, and that files of an
// operator that are newer replace it.
func TestRenewalIsUsedAtOnceAndStored(t *testing.T) {
	i := newInstallation(t)
	i.configure(i.pair(i.authority, "registry", time.Hour))
	source, _, _ := open(t, identity.Options{Files: i.files(), Store: i.store(), Every: time.Millisecond})
	s := serve(t, source)
	client := clientOf(t, i)
	before := presented(t, s.addr, client)
	if err := source.Renew(t.Context(), i.renewer("registry", 10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	after := presented(t, s.addr, client)
	if before == after || after != source.Certificate().SerialNumber.String() {
		t.Errorf("the server presents %s, then %s", before, after)
	}
	file := filepath.Join(string(i.store()), "registry.pem")
	// KeepRenewed stores the certificate that Renew has obtained.
	kittest.Run(t, "renewal", func(ctx context.Context) error {
		source.KeepRenewed(ctx, func(context.Context, []byte) ([]byte, error) { return nil, errors.New("it is not due") })
		return nil
	})
	kittest.Eventually(t, "the stored certificate", func() error { _, err := os.Stat(file); return err })
	for path, want := range map[string]os.FileMode{file: 0o600, string(i.store()): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
	again, _, _ := open(t, identity.Options{Files: i.files(), Store: i.store()})
	if serialIn(again) != serialIn(source) {
		t.Error("after a restart another certificate is used")
	}
	kittest.Run(t, "source", source.Run)
	operators := i.pair(i.authority, "registry", time.Minute)
	i.configure(operators)
	kittest.Eventually(t, "the files of the operator", func() error {
		if serialIn(source) != serialOf(t, operators.Cert) {
			return errors.New("not taken")
		}
		return nil
	})
}

func clientOf(t *testing.T, i *installation) *identity.Source {
	t.Helper()
	pair := i.pair(i.authority, "operator", time.Hour)
	files := identity.Files{Cert: i.path("operator.crt"), Key: i.path("operator.key"), CA: i.path("ca.crt")}
	write(t, files.Cert, pair.Cert)
	write(t, files.Key, pair.Key)
	return sourceOf(t, files)
}

// TestAnswersOfARegistryAreChecked gives answers that a registry must not give. They change nothing.
func TestAnswersOfARegistryAreChecked(t *testing.T) {
	i := newInstallation(t)
	i.configure(i.pair(i.authority, "registry", 10*time.Minute))
	source, _, _ := open(t, identity.Options{Files: i.files(), Role: identity.Registry})
	foreign := newInstallation(t)
	before := serialIn(source)
	for name, c := range map[string]struct {
		sign identity.SignFunc
		want string
	}{
		"another role": {i.renewer("dnssvc", time.Minute), "not of the role registry"},
		"another key": {func(context.Context, []byte) ([]byte, error) {
			return i.pair(i.issuer, "registry", time.Minute).Cert, nil
		}, "does not go with"},
		"another authority": {foreign.renewer("registry", time.Minute), "was not issued by the authority"},
		"an earlier one":    {i.renewer("registry", time.Hour), "set the clocks right"},
		"nothing":           {func(context.Context, []byte) ([]byte, error) { return nil, nil }, "find certificate PEM data"},
		"a refusal":         {func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no") }, "no"},
	} {
		if err := source.Renew(t.Context(), c.sign); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if serialIn(source) != before {
		t.Error("another certificate is used")
	}
}

// TestRenewalsGoOnUnattended runs for 20 days with certificates of 24 hours. On the way the registry
// is away for 6 hours, and the store cannot be written to for more than two lives.
func TestRenewalsGoOnUnattended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstallation(t)
		i.configure(i.pair(i.authority, "nodeagent/n1", 24*time.Hour))
		start, reg := time.Now(), prometheus.NewRegistry()
		between := func(from, to time.Duration) bool { return time.Since(start) >= from && time.Since(start) < to }
		failing := atomic.Int32{}
		store := &fullStore{full: func() bool { return between(234*time.Hour, 290*time.Hour) }}
		source, err := identity.Open(identity.Options{Files: i.files(), Store: store, Log: slog.New(slog.DiscardHandler), Metrics: reg})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go source.KeepRenewed(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
			if left := time.Until(source.Expires()); left < time.Hour || left > 10*time.Hour {
				t.Errorf("renewed %s before its end", left)
			}
			if between(100*time.Hour, 106*time.Hour) {
				failing.Add(1)
				return nil, errors.New("no registry")
			}
			return i.renewer("nodeagent/n1", 24*time.Hour)(ctx, request)
		})
		for range 20 * 24 {
			time.Sleep(time.Hour)
			if !time.Now().Before(source.Expires()) {
				t.Fatalf("expired after %s", time.Since(start))
			}
		}
		cancel()
		synctest.Wait()
		if n := metric(t, reg, "portolan_tls_renewals_total", "renewed"); n < 27 || n > 33 {
			t.Errorf("%v renewals in 20 days", n)
		}
		// The pauses double from a second to ten minutes.
		if n := metric(t, reg, "portolan_tls_renewals_total", "failed"); int32(n) != failing.Load() || n > 50 {
			t.Errorf("%v failures are counted, of %d", n, failing.Load())
		}
		if n := metric(t, reg, "portolan_tls_renewals_total", "unsaved"); n == 0 {
			t.Error("a store that was full was not counted")
		}
		if store.saved != serialIn(source) {
			t.Errorf("the certificate %s is stored, want %s", store.saved, serialIn(source))
		}
		if life := metric(t, reg, "portolan_tls_certificate_lifetime_seconds", ""); life != (24*time.Hour + 5*time.Minute).Seconds() {
			t.Errorf("lifetime %v", life)
		}
	})
}

// fullStore is a store that cannot be written to while full returns true.
type fullStore struct {
	full  func() bool
	saved string
}

func (s *fullStore) Load(identity.ID) ([]byte, error) { return nil, nil }

func (s *fullStore) Save(_ identity.ID, cert, _ []byte) error {
	if s.full() {
		return errors.New("no space left on device")
	}
	parsed, err := authority.ParseCert(cert)
	if err == nil {
		s.saved = parsed.SerialNumber.Text(16)
	}
	return err
}

// TestIssuerGivesRolesOfRenewalOnly makes certificates of all roles with the issuer's key. Clients
// and servers accept only the certificates of the roles that renew themselves.
func TestIssuerGivesRolesOfRenewalOnly(t *testing.T) {
	i := newInstallation(t)
	i.configure(i.pair(i.authority, "registry", time.Hour))
	s := serve(t, sourceOf(t, i.files()))
	client := clientOf(t, i)
	for _, role := range identity.Roles() {
		who := string(role)
		if role.OfNode() {
			who += "/n1"
		}
		forged := i.forge(who)
		_, err := i.issuer.Issue(authority.Request{ID: mustParse(t, who), Lifetime: time.Minute})
		if (err == nil) != identity.Renews(role) {
			t.Errorf("the issuer issues %s: %v", who, err)
		}
		if err := check(t, dial(t, s.addr, withTLS(&tls.Config{Certificates: []tls.Certificate{forged}, InsecureSkipVerify: true}))); (err == nil) != identity.Renews(role) {
			t.Errorf("a server, about the client %s: %v", who, err)
		}
		lis, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{forged}, MinVersion: tls.VersionTLS13})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lis.Close() })
		go func() {
			if conn, err := lis.Accept(); err == nil {
				_ = conn.(*tls.Conn).HandshakeContext(t.Context())
				_ = conn.Close()
			}
		}()
		conn, err := tls.Dial("tcp", lis.Addr().String(), client.TLS(role))
		if err == nil {
			_ = conn.Close()
		}
		if identity.Renews(role) != (err == nil) || err != nil && !strings.Contains(err.Error(), "comes from the issuer of renewals") {
			t.Errorf("a client, about the server %s: %v", who, err)
		}
	}
}

func mustParse(t *testing.T, who string) identity.ID {
	t.Helper()
	id, err := identity.ParsePath("portolan", who)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// forge makes a certificate with the issuer's key, without the checks of package authority.
func (i *installation) forge(who string) tls.Certificate {
	i.t.Helper()
	issuer, err := tls.X509KeyPair(i.issuer.Pair().Cert, i.issuer.Pair().Key)
	if err != nil {
		i.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		URIs:        []*url.URL{{Scheme: "spiffe", Host: "portolan", Path: "/" + who}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, issuer.Leaf, &key.PublicKey, issuer.PrivateKey)
	if err != nil {
		i.t.Fatal(fmt.Errorf("forge %s: %w", who, err))
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
