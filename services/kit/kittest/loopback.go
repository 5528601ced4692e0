package kittest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"
)

// LoopbackTLS returns the configurations of a TLS server at 127.0.0.1 and of its clients, with a new
// authority.
func LoopbackTLS(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	const host = "127.0.0.1"
	files := NewCertificates(t).Issue("edge/n1", time.Hour, host)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{Certificates: []tls.Certificate{cert}}, &tls.Config{RootCAs: roots, ServerName: host}
}
