package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/kittest"
)

func open(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := Parse(dsn, map[string]string{"application_name": "kit"})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// serial returns the serial number of the client certificate of a new connection.
func serial(t *testing.T, pool *pgxpool.Pool) (number string) {
	t.Helper()
	pool.Reset()
	const query = `SELECT client_serial::text FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()`
	if err := pool.QueryRow(t.Context(), query, pgx.QueryExecModeSimpleProtocol).Scan(&number); err != nil {
		t.Fatal(err)
	}
	return number
}

// TestCertificatesAreReadAnew renews the client's certificate and replaces the authorities under a
// pool of connections.
func TestCertificatesAreReadAnew(t *testing.T) {
	certs, foreign := kittest.NewCertificates(t), kittest.NewCertificates(t)
	cluster := kittest.NewTLSCluster(t, certs)
	cluster.Role(t, "allocator")
	pool := open(t, cluster.URL("allocator", certs.Issue("allocator", time.Hour)))
	before := serial(t, pool)
	certs.Issue("allocator", 2*time.Hour)
	if after := serial(t, pool); after == before {
		t.Error("a new connection uses the old certificate")
	}
	own, other := certs.Authority.Pair().Cert, foreign.Authority.Pair().Cert
	for _, c := range []struct {
		name    string
		file    []byte
		refused bool
	}{{"another authority", other, true}, {"both", slices.Concat(other, own), false}, {"a file that cannot be used", []byte("none"), false}} {
		if err := os.WriteFile(certs.CA(), c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		pool.Reset()
		err := pool.Ping(t.Context())
		if refused := err != nil && strings.Contains(err.Error(), "certificate signed by unknown authority"); refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v, refused: %t, want %t", c.name, err, refused, c.refused)
		}
	}
}

// TestTheIssuerMakesNoPostgres shows the connection the certificate of a Postgres server that was
// made with the key that registries have.
func TestTheIssuerMakesNoPostgres(t *testing.T) {
	issuer, err := authority.NewIssuer("portolan", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issuer.Pair().Cert, issuer.Pair().Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	for who, refused := range map[string]bool{"postgres": true, "allocator": false} {
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"db.example"},
			URIs: []*url.URL{{Scheme: "spiffe", Host: "portolan", Path: "/" + who}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, pair.Leaf, &key.PublicKey, pair.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		err = verifyServer(state, "db.example", &tls.Config{RootCAs: roots})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "comes from the issuer") {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// TestSettingsOfTheLocationCount checks that a setting of the location is not replaced.
func TestSettingsOfTheLocationCount(t *testing.T) {
	params := map[string]string{"application_name": "ours", "statement_timeout": "15000"}
	config, err := Parse("postgres://db.example/x?application_name=theirs&connect_timeout=60", params)
	if err != nil {
		t.Fatal(err)
	}
	got := config.ConnConfig.RuntimeParams
	if got["application_name"] != "theirs" || got["statement_timeout"] != "15000" || config.ConnConfig.ConnectTimeout != maxConnect {
		t.Errorf("settings %v, time to connect %s", got, config.ConnConfig.ConnectTimeout)
	}
	if _, err := Parse("postgres://db.example:port/x", nil); err == nil {
		t.Error("a port that is no number was accepted")
	}
}

// TestRefusalsHaveRemedies checks the texts of errors.
func TestRefusalsHaveRemedies(t *testing.T) {
	conn, err := pgx.ParseConfig("postgres://clerk@db.example/shop")
	if err != nil {
		t.Fatal(err)
	}
	for code, remedy := range map[string]string{
		"28P01": "ALTER ROLE clerk PASSWORD", "28000": "CREATE ROLE clerk LOGIN", "3D000": "CREATE DATABASE shop OWNER clerk",
		"42501": "ALTER DATABASE shop OWNER TO clerk",
	} {
		got := Refusal(fmt.Errorf("connect: %w", &pgconn.PgError{Code: code, Message: "what Postgres says"}), conn)
		if !strings.Contains(got, remedy) || !strings.Contains(got, "what Postgres says") {
			t.Errorf("%s: %q, want %q", code, got, remedy)
		}
	}
	for _, passing := range []error{errors.New("connection refused"), &pgconn.PgError{Code: "57P03", Message: "the database system is starting up"}} {
		if got := Refusal(passing, conn); got != "" {
			t.Errorf("%v is a refusal: %s", passing, got)
		}
	}
	lines := errors.New("failed to connect:\n\tfirst: refused\n\tsecond: refused\n\tfirst: refused")
	if got, want := OneLine(lines).Error(), "failed to connect: first: refused; second: refused"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
