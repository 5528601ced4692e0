package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/atomicfile"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/spec"
)

// pair is a certificate with its key, PEM, that signs itself.
type pair struct{ cert, key []byte }

// newPair makes a certificate that a test recognises by its common name.
func newPair(t testing.TB, common string, rsaKey bool, expires time.Time, names ...string) pair {
	t.Helper()
	var key crypto.Signer
	var err error
	if rsaKey {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: common}, DNSNames: names,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: expires, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}),
	}
}

// later is a time at which no certificate of a test has expired.
func later() time.Time { return time.Now().Add(time.Hour) }

// secret returns the pair as a Secret of the namespace "shop".
func (p pair) secret(name string, ca []byte) *corev1.Secret {
	meta := &corev1.ObjectMeta{Namespace: "shop", Name: name}
	return &corev1.Secret{Metadata: meta, Type: spec.SecretTypeTLS, Data: map[string][]byte{spec.SecretCert: p.cert, spec.SecretKey: p.key, spec.SecretCA: ca}}
}

// write replaces the files of a certificate, each atomically. It removes a file with nil content.
func (p pair) write(t testing.TB, dir, name string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, name+".key"), p.key)
	writeFile(t, filepath.Join(dir, name+".crt"), p.cert)
}

func writeFile(t testing.TB, path string, text []byte) {
	t.Helper()
	if text == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return
	}
	if err := atomicfile.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := New(Options{Dir: dir, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// setSecrets gives a store the pairs as Secrets of the namespace "shop".
func setSecrets(s *Store, pairs map[string]pair) {
	var secrets []*corev1.Secret
	for name, p := range pairs {
		secrets = append(secrets, p.secret(name, nil))
	}
	s.SetSecrets(secrets)
}

// withCerts returns settings with certificates.
func withCerts(refs ...balancer.CertificateRef) *balancer.Settings {
	return &balancer.Settings{TLS: true, Certificates: refs}
}

func secretRef(name string) balancer.CertificateRef {
	return balancer.CertificateRef{Kind: balancer.CertificateSecret, Name: name}
}

func fileRef(name string) balancer.CertificateRef {
	return balancer.CertificateRef{Kind: balancer.CertificateFile, Name: name}
}

func either(name string) balancer.CertificateRef {
	return balancer.CertificateRef{Kind: balancer.CertificateAny, Name: name}
}

// listen accepts connections that echo, each with the configuration that next returns for it.
func listen(t testing.TB, next func() *tls.Config) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				secure := tls.Server(conn, next())
				_, _ = io.Copy(secure, secure)
			}()
		}
	}()
	return lis.Addr().String()
}

// dial connects and echoes a byte, after which the client has its session ticket. It returns the
// connection's state.
func dial(addr string, config *tls.Config) (tls.ConnectionState, error) {
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), echo(conn)
}

func echo(conn net.Conn) error {
	if _, err := conn.Write([]byte{42}); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// shown returns the common name of the certificate that a client gets, or the error.
func shown(addr, name string, change func(*tls.Config)) string {
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	if change != nil {
		change(config)
	}
	state, err := dial(addr, config)
	if err != nil {
		return err.Error()
	}
	return state.PeerCertificates[0].Subject.CommonName
}
