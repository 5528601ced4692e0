package edge_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// answerTimeout is the time limit for an event at a connection.
const answerTimeout = 10 * time.Second

// greet is a backend that sends its name at once, and then returns the bytes that it gets.
func greet(name string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := fmt.Fprintln(conn, name); err == nil {
			_, _ = io.Copy(conn, conn) // the client ends it
		}
	}
}

// client is a connection to the edge.
type client struct {
	net.Conn
	in *bufio.Reader
}

// dial connects to a port.
func dial(t *testing.T, frontend netip.AddrPort) *client {
	t.Helper()
	conn, err := net.DialTimeout("tcp", frontend.String(), answerTimeout)
	if err != nil {
		t.Fatal(err)
	}
	return connection(t, conn)
}

func connection(t *testing.T, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: conn, in: bufio.NewReader(conn)}
}

// line reads a line.
func (c *client) line() (string, error) {
	text, err := c.in.ReadString('\n')
	return strings.TrimSpace(text), err
}

// ask sends a line and reads one.
func (c *client) ask(text string) (string, error) {
	if _, err := fmt.Fprintln(c, text); err != nil {
		return "", err
	}
	return c.line()
}

// backendName returns the name of the backend that a new connection reaches, or the error.
func backendName(t *testing.T, frontend netip.AddrPort) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", frontend.String(), answerTimeout)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	name, err := connection(t, conn).line()
	if err != nil {
		return err.Error()
	}
	return name
}

// reached returns the backends that n new connections reach.
func reached(t *testing.T, frontend netip.AddrPort, n int) map[string]int {
	t.Helper()
	names := map[string]int{}
	for range n {
		names[backendName(t, frontend)]++
	}
	return names
}

// authority issues certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	last atomic.Int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.make(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}, nil, nil)
	return a
}

func (a *authority) make(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(a.last.Add(1))
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// pair is a certificate with its key in PEM.
type pair struct{ cert, key []byte }

// issue returns a certificate for names.
func (a *authority) issue(names ...string) pair {
	a.t.Helper()
	cert, key := a.make(&x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names}, a.cert, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

// pem returns the authority's certificate.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// pool returns the authority alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (p pair) tls(t *testing.T) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// write writes NAME.crt and NAME.key into a folder.
func (p pair) write(t *testing.T, dir, name string) {
	t.Helper()
	for suffix, content := range map[string][]byte{".key": p.key, ".crt": p.cert} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// webServer is a backend of HTTP that records the headers of the last request.
type webServer struct {
	addr string
	mu   sync.Mutex
	last *http.Request
}

// startWeb serves HTTP: the name of the server as the body.
func startWeb(t *testing.T, name string, change ...func(*http.Server)) *webServer {
	t.Helper()
	w := &webServer{}
	server := &http.Server{ReadHeaderTimeout: answerTimeout, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.last = r
		w.mu.Unlock()
		fmt.Fprintf(out, "%s %s", name, r.Proto)
	})}
	for _, c := range change {
		c(server)
	}
	lis := kittest.Listen(t)
	w.addr = lis.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if server.TLSConfig != nil {
			_ = server.ServeTLS(lis, "", "")
		} else {
			_ = server.Serve(lis)
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return w
}

// header returns a header of the last request.
func (w *webServer) header(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Header.Get(name)
}

// browser returns a client of HTTP that connects anew for each request.
func browser(config *tls.Config) *http.Client {
	return &http.Client{Timeout: answerTimeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// fetch returns the status and the body of a page.
func fetch(t *testing.T, c *http.Client, url string) (status int, body string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, strings.TrimSpace(string(text))
}

// startProgram starts a program of Debian and stops it with the test.
func startProgram(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here; it comes with Debian's %s", name, name)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
}

// startHAProxy starts HAProxy as a backend that reads PROXY headers. It answers requests with the address of the client
// in the header.
func startHAProxy(t *testing.T) string {
	t.Helper()
	addr := freePort(t, "127.0.0.1").String()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := "defaults\n mode http\n timeout client 10s\n timeout server 10s\n timeout connect 1s\n" +
		"frontend f\n bind " + addr + " accept-proxy\n http-request return status 200 content-type text/plain lf-string \"%ci %fi:%fp\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startProgram(t, "haproxy", "-db", "-q", "-f", file)
	return awaitPort(t, addr)
}

// startNginx starts nginx as startHAProxy starts HAProxy.
func startNginx(t *testing.T) string {
	t.Helper()
	addr, dir := freePort(t, "127.0.0.1").String(), t.TempDir()
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr warn;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
  server { listen %[2]s proxy_protocol; location / { return 200 "$proxy_protocol_addr $proxy_protocol_server_addr:$proxy_protocol_server_port"; } }
}
`, dir, addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startProgram(t, "nginx", "-c", file)
	return awaitPort(t, addr)
}

// awaitPort waits until a port is open, and returns its address.
func awaitPort(t *testing.T, addr string) string {
	t.Helper()
	kittest.Eventually(t, addr+" is open", func() error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return addr
}
