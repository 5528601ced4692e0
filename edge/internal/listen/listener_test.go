package listen_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/kit/kittest"
)

// prefixed is a connection that sends a prefix together with the first bytes.
type prefixed struct {
	net.Conn
	prefix string
}

func (p *prefixed) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(append([]byte(p.prefix), b...))
	n, p.prefix = max(0, n-len(p.prefix)), ""
	return n, err
}

// say expects a line back that it sends.
func say(conn io.ReadWriter, r *bufio.Reader) error {
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return err
	}
	line, err := r.ReadString('\n')
	if err == nil && line != "hello\n" {
		err = fmt.Errorf("got %q", line)
	}
	return err
}

// greet reads the handler's greeting.
func greet(t *testing.T, conn net.Conn) *bufio.Reader {
	t.Helper()
	r := bufio.NewReader(conn)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTakenAndForeignAddresses(t *testing.T) {
	w := start(t, listen.Options{}, listen.Settings{})
	if _, err := listen.Open(w.listener.Addr(), listen.Options{}, w.settings(listen.Settings{})); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a taken port: %v", err)
	}
	if _, err := listen.Open(netip.MustParseAddrPort("192.0.2.1:80"), listen.Options{}, w.settings(listen.Settings{})); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("a foreign address: %v", err)
	}
}

// TestCertificatesChange checks that a new certificate is for new connections, and that established
// ones continue.
func TestCertificatesChange(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	nextServer, nextClient := kittest.LoopbackTLS(t)
	var config atomic.Pointer[tls.Config]
	config.Store(server)
	w := start(t, listen.Options{}, listen.Settings{TLS: config.Load})
	before := tls.Client(w.dial(""), client)
	r := greet(t, before)
	config.Store(nextServer)
	after := tls.Client(w.dial(""), nextClient)
	if err := say(after, greet(t, after)); err != nil {
		t.Error(err)
	}
	if err := say(before, r); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	var unknown *tls.CertificateVerificationError
	if err := tls.Client(w.dial(""), client).Handshake(); !errors.As(err, &unknown) {
		t.Errorf("with the former authority: %v", err)
	}
	w.expectRefused(map[listen.Reason]int{listen.BadTLS: 1})
}

// TestFailedHandshakeIsExplained checks that the client gets TLS's alert and not a reset.
func TestFailedHandshakeIsExplained(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	server.MinVersion, client.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
	w := start(t, listen.Options{}, listen.Settings{TLS: func() *tls.Config { return server }})
	var alert *net.OpError
	if err := tls.Client(w.dial(""), client).Handshake(); !errors.As(err, &alert) || alert.Op != "remote error" {
		t.Errorf("the handshake failed by %v, want an alert", err)
	}
	w.expectRefused(map[listen.Reason]int{listen.BadTLS: 1})
}

func TestSilentTLSClientEnds(t *testing.T) {
	server, _ := kittest.LoopbackTLS(t)
	w := start(t, listen.Options{HandshakeTimeout: time.Millisecond}, listen.Settings{TLS: func() *tls.Config { return server }})
	if data, err := io.ReadAll(w.dial("\x16\x03\x01")); err == nil && len(data) > 0 {
		t.Errorf("read %q", data)
	}
	w.expectRefused(map[listen.Reason]int{listen.BadTLS: 1})
}

// TestOldestUnfinishedHandshakeMakesWay checks that silent clients do not keep out others.
func TestOldestUnfinishedHandshakeMakesWay(t *testing.T) {
	w := start(t, listen.Options{MaxUnfinished: 2, HandshakeTimeout: time.Hour}, listen.Settings{ProxyFrom: loopback})
	ends := make(chan error, 2)
	for range cap(ends) {
		silent := w.dial("PROXY ")
		go func() {
			_, err := silent.Read(make([]byte, 1))
			ends <- err
		}()
	}
	conn := w.dial("PROXY UNKNOWN\r\n")
	if err := say(conn, greet(t, conn)); err != nil {
		t.Error(err)
	}
	if err := kittest.Receive(t, "the end of a silent client", ends); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a silent client saw %v, want a reset", err)
	}
	w.expectRefused(map[listen.Reason]int{listen.Displaced: 1})
	if len(ends) > 0 {
		t.Error("both silent clients were reset")
	}
	w.listener.Close()
	w.expectRefused(map[listen.Reason]int{listen.Displaced: 1, listen.Stopped: 1})
	if err := say(conn, bufio.NewReader(conn)); err != nil {
		t.Errorf("a connection that is served, after the listener was closed: %v", err)
	}
	conn.Close()
}

// TestLimits checks the limits of connections, which change in place.
func TestLimits(t *testing.T) {
	w := start(t, listen.Options{}, listen.Settings{MaxConnections: 2})
	first := w.dial("")
	greet(t, first)
	second := w.dialFrom("127.0.0.2", "")
	greet(t, second)
	w.expectResetOf("127.0.0.1", "")
	w.expectRefused(map[listen.Reason]int{listen.TooMany: 1})

	w.listener.Set(w.settings(listen.Settings{MaxPerClient: 1}))
	w.expectResetOf("127.0.0.1", "")
	greet(t, w.dialFrom("127.0.0.3", ""))
	w.expectRefused(map[listen.Reason]int{listen.TooMany: 1, listen.TooManyOf: 1})

	first.Close()
	kittest.Eventually(t, "the connection to end", func() error {
		if n := w.listener.Connections(); n != 2 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
	greet(t, w.dial(""))
}

// TestLimitsCountTheNamedClient checks that connections through a load balancer in front count for
// the client that the header names, and that a failed handshake no longer counts.
func TestLimitsCountTheNamedClient(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	w := start(t, listen.Options{}, listen.Settings{ProxyFrom: loopback, MaxPerClient: 1, TLS: func() *tls.Config { return server }})
	connect := func(header string) net.Conn { return tls.Client(&prefixed{Conn: w.dial(""), prefix: header}, client) }
	io.ReadAll(w.dial("PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\nnot TLS")) //nolint:errcheck // it ends in any case
	w.expectRefused(map[listen.Reason]int{listen.BadTLS: 1})
	greet(t, connect("PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n"))
	greet(t, connect("PROXY TCP4 192.0.2.2 198.51.100.1 1 2\r\n"))
	if _, err := connect("PROXY TCP4 192.0.2.1 198.51.100.1 3 2\r\n").Read(make([]byte, 1)); err == nil {
		t.Error("a second connection of the same client was served")
	}
	w.expectRefused(map[listen.Reason]int{listen.BadTLS: 1, listen.TooManyOf: 1})
}

// TestSettingsChangeInPlace checks that a change of the source ranges is for new connections.
func TestSettingsChangeInPlace(t *testing.T) {
	w := start(t, listen.Options{}, listen.Settings{})
	conn := w.dial("")
	r := greet(t, conn)
	w.listener.Set(w.settings(listen.Settings{Restricted: true}))
	w.expectResetOf("127.0.0.1", "")
	w.expectRefused(map[listen.Reason]int{listen.NotAdmitted: 1})
	if err := say(conn, r); err != nil {
		t.Errorf("the established connection: %v", err)
	}
}

// TestHandlerMayReturnEarly checks that a connection counts until it is closed, not until its handler
// returns.
func TestHandlerMayReturnEarly(t *testing.T) {
	handled := make(chan *listen.Conn, 1)
	l, err := listen.Open(netip.MustParseAddrPort("127.0.0.1:0"), listen.Options{}, &listen.Settings{Handle: func(c *listen.Conn) { handled <- c }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := kittest.Receive(t, "the connection", handled)
	if n := l.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
	c.Close()
	c.Close()
	if n := l.Connections(); n != 0 {
		t.Errorf("%d connections after the end", n)
	}
}
