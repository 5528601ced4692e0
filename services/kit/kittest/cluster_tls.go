package kittest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"portolan.dev/services/kit/identity"
)

// TLSCluster is a Postgres server that accepts a TCP connection only if the common name of the client's
// certificate is the name of the user.
type TLSCluster struct {
	*Cluster
}

// attempts is the number of attempts to find a free port, because another process may take a port
// between its choice and its use.
const attempts = 20

// NewTLSCluster starts a server with a certificate of the role postgres for localhost. Like
// Postgres, it skips the test if there is no installation.
func NewTLSCluster(t testing.TB, certs *Certificates) *TLSCluster {
	t.Helper()
	c := &TLSCluster{Cluster: NewCluster(t)}
	files := certs.Issue("postgres", time.Hour, "localhost")
	cert, key, ca := c.copyFile(t, files.Cert, "server.crt"), c.copyFile(t, files.Key, "server.key"), c.copyFile(t, files.CA, "ca.crt")
	c.write(t, filepath.Join("data", "pg_hba.conf"), []byte("local all all trust\nhostssl all all all cert\n"))
	for attempt := 1; ; attempt++ {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		lis := Listen(t)
		c.port = lis.Addr().(*net.TCPAddr).Port
		lis.Close()
		c.tls = []string{
			"-c", "listen_addresses=127.0.0.1",
			"-c", "ssl=on", "-c", "ssl_cert_file=" + cert, "-c", "ssl_key_file=" + key, "-c", "ssl_ca_file=" + ca,
		}
		err := c.Start()
		if err == nil {
			return c
		}
		if attempt == attempts {
			t.Fatalf("postgres: %v", err)
		}
	}
}

// Role creates a role, and a database with the same name and owner.
func (c *TLSCluster) Role(t testing.TB, name string) {
	t.Helper()
	for _, sql := range []string{"CREATE ROLE " + name + " LOGIN", "CREATE DATABASE " + name + " OWNER " + name} {
		if err := execute(c.DSN("postgres"), sql); err != nil {
			t.Fatalf("postgres: %v", err)
		}
	}
}

// URL returns the connection string of a role's own database, over TLS.
func (c *TLSCluster) URL(role string, files identity.Files) string {
	return fmt.Sprintf("postgres://%s@localhost:%d/%s?sslmode=verify-full&sslrootcert=%s&sslcert=%s&sslkey=%s",
		role, c.port, role, files.CA, files.Cert, files.Key)
}

// copyFile copies a file to a place where the server may read it.
func (c *TLSCluster) copyFile(t testing.TB, from, name string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	return c.write(t, name, data)
}

// write writes a file of the server.
func (c *Cluster) write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.cred != nil {
		if err := os.Chown(path, int(c.cred.Uid), int(c.cred.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
