package web_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/web"
	"portolan.dev/services/backends"
	"portolan.dev/services/kit/kittest"
)

// edge is a Server with a listener on loopback.
type edge struct {
	*web.Server
	addr    string
	pool    *backends.Pool
	mu      sync.Mutex
	records []web.Record
}

// startEdge starts an edge in front of backends. The certificates make it an edge with TLS.
func startEdge(t *testing.T, c web.Config, certs *tls.Config, backends ...netip.AddrPort) *edge {
	t.Helper()
	var settings listen.Settings
	if certs != nil {
		settings.TLS = func() *tls.Config { return certs }
	}
	return startListening(t, c, settings, backends...)
}

// startListening starts an edge with other settings of the listener.
func startListening(t *testing.T, c web.Config, settings listen.Settings, addrs ...netip.AddrPort) *edge {
	t.Helper()
	e := &edge{}
	e.pool = backends.NewPool(backends.Options{Removed: func(b *backends.Backend) { e.BackendRemoved(b.Addr()) }})
	c.Details = true
	c.Record = func(r *web.Record) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.records = append(e.records, *r)
	}
	e.Server = web.New(e.pool, c, slog.New(slog.DiscardHandler))
	e.setBackends(addrs...)
	settings.Handle = e.Serve
	lis, err := listen.Open(netip.MustParseAddrPort("127.0.0.1:0"), listen.Options{}, &settings)
	if err != nil {
		t.Fatal(err)
	}
	e.addr = lis.Addr().String()
	t.Cleanup(func() {
		lis.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Shutdown(ctx)
	})
	return e
}

func (e *edge) setBackends(addrs ...netip.AddrPort) {
	s := &backends.Server{Drain: 10 * time.Second}
	for _, a := range addrs {
		s.Backends = append(s.Backends, backends.Real{Addr: a, Weight: 1})
	}
	e.pool.Replace(s)
}

// record waits for the nth record, counted from 1.
func (e *edge) record(t *testing.T, n int) web.Record {
	t.Helper()
	var r web.Record
	kittest.Eventually(t, fmt.Sprintf("record %d", n), func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.records) < n {
			return fmt.Errorf("there are %d records", len(e.records))
		}
		r = e.records[n-1]
		return nil
	})
	return r
}

func addrOf(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

// startHTTP starts a backend of net/http.
func startHTTP(t *testing.T, h http.HandlerFunc) netip.AddrPort {
	t.Helper()
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	lis := kittest.Listen(t)
	s := &http.Server{Handler: h, Protocols: &p, ErrorLog: log.New(io.Discard, "", 0)}
	go s.Serve(lis)
	t.Cleanup(func() { s.Close() })
	return addrOf(lis.Addr())
}

// startRaw starts a backend that serves each connection by a function.
func startRaw(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	lis := kittest.Listen(t)
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return addrOf(lis.Addr())
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) netip.AddrPort {
	lis := kittest.Listen(t)
	defer lis.Close()
	return addrOf(lis.Addr())
}

// both runs a test with each path.
func both(t *testing.T, test func(*testing.T, web.Config)) {
	t.Run("fast", func(t *testing.T) { test(t, web.Config{}) })
	t.Run("reference", func(t *testing.T) { test(t, web.Config{ReferenceOnly: true}) })
}

// client is a connection on which a test writes HTTP/1 itself.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func connect(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{conn, t, bufio.NewReader(conn)}
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatal("send:", err)
	}
}

// response reads a response with its body.
func (c *client) response(method string) (*http.Response, string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal("response:", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal("body:", err)
	}
	return res, string(body)
}

// closed checks that the edge closes the connection without more.
func (c *client) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("want the end of the connection, got %q, %v", rest, err)
	}
}

func wantStatus(t *testing.T, res *http.Response, body string, status int, text string) {
	t.Helper()
	if res.StatusCode != status || !strings.Contains(body, text) {
		t.Fatalf("got %d %q, want %d and %q", res.StatusCode, body, status, text)
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %d", r.Method, r.RequestURI, r.Host, len(body))
}

func readHead(r *bufio.Reader) string {
	var b bytes.Buffer
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String()
		}
	}
}
