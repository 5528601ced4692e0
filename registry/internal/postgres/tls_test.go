package postgres

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
)

// TestStoreOverTLS checks that connections use the registry's certificate, also after it is
// renewed, and accept only the configured server.
func TestStoreOverTLS(t *testing.T) {
	certs := kittest.NewCertificates(t)
	cluster := kittest.NewTLSCluster(t, certs)
	cluster.Role(t, "registry")
	files := certs.Issue("registry", time.Hour)
	dsn := cluster.URL("registry", files)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer s.Close()
	if encrypted, _ := serial(t, s); !encrypted {
		t.Error("the connection is in the clear")
	}

	_, before := serial(t, s)
	certs.Issue("registry", 2*time.Hour)
	s.pool.Reset()
	if _, after := serial(t, s); after == before {
		t.Error("a new connection uses the old certificate")
	}

	other := certs.Issue("dnssvc", time.Hour)
	foreign := kittest.NewCertificates(t)
	for name, c := range map[string]struct{ dsn, want string }{
		"another role":      {cluster.URL("registry", other), "certificate authentication failed for user"},
		"no certificate":    {strings.Split(dsn, "&sslcert=")[0], "connection requires a valid client certificate"},
		"another authority": {strings.Replace(dsn, certs.CA(), foreign.CA(), 1), "x509: certificate signed by unknown authority"},
		"another host":      {strings.Replace(dsn, "@localhost:", "@127.0.0.1:", 1), "x509: cannot validate certificate for 127.0.0.1"},
		"in the clear":      {strings.Replace(dsn, "verify-full", "disable", 1), "no pg_hba.conf entry"},
	} {
		opened, err := Open(t.Context(), Config{DSN: c.dsn, Log: kittest.Logger(t)})
		if err == nil {
			opened.Close()
			t.Errorf("%s: the store is open", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestStoreFollowsAuthorities checks that a new connection trusts the authorities that are in
// sslrootcert at that time.
func TestStoreFollowsAuthorities(t *testing.T) {
	certs, foreign := kittest.NewCertificates(t), kittest.NewCertificates(t)
	cluster := kittest.NewTLSCluster(t, certs)
	cluster.Role(t, "registry")
	dsn := cluster.URL("registry", certs.Issue("registry", time.Hour))
	own, other := certs.Authority.Pair().Cert, foreign.Authority.Pair().Cert
	for _, mode := range []string{"verify-full", "verify-ca"} {
		s := openStore(t, strings.Replace(dsn, "verify-full", mode, 1), store.CommitterOptions{})
		for _, c := range []struct {
			name    string
			file    []byte
			refused bool
		}{
			{"another authority", other, true}, {"both", slices.Concat(other, own), false}, {"a file that cannot be used", []byte("none"), false},
			{"the other again", other, true}, {"its own", own, false},
		} {
			if err := os.WriteFile(certs.CA(), c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			s.pool.Reset()
			err := s.pool.Ping(t.Context())
			if refused := err != nil && strings.Contains(err.Error(), "certificate signed by unknown authority"); refused != c.refused || err != nil && !refused {
				t.Errorf("%s, %s: %v, refused: %t, want %t", mode, c.name, err, refused, c.refused)
			}
		}
		s.Close()
	}
}

// serial returns whether a connection of the store is encrypted, and the serial number of its
// client certificate.
func serial(t *testing.T, s *Store) (encrypted bool, number string) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), `SELECT ssl, client_serial::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&encrypted, &number)
	if err != nil {
		t.Fatal(err)
	}
	return encrypted, number
}
