package stream_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/stream"
	"portolan.dev/services/kit/kittest"
)

// closeWriter is a connection that can close one direction.
type closeWriter interface {
	net.Conn
	CloseWrite() error
}

// TestBytesArriveWhole sends random bytes through every combination of TLS, both ways at once, and
// checks that each direction ends by itself.
func TestBytesArriveWhole(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	for _, c := range []struct{ clientTLS, backendTLS bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("TLS of the client %t, of the backend %t", c.clientTLS, c.backendTLS), func(t *testing.T) {
			b := startBackend(t)
			s, l := stream.Settings{}, listen.Settings{}
			if c.clientTLS {
				l.TLS = func() *tls.Config { return server }
			}
			if c.backendTLS {
				s.BackendTLS = client
			}
			w := start(t, s, l, b.addr())
			near := closeWriter(w.dial())
			if c.clientTLS {
				near = tls.Client(near, client)
			}
			up, down := randomBytes(3<<20), randomBytes(2<<20)
			go func() { // a TLS handshake with the backend comes before its first byte
				near.Write(up)
				near.CloseWrite()
			}()
			far := closeWriter(b.accept(t))
			if c.backendTLS {
				far = tls.Server(far, server)
			}
			if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, up) {
				t.Fatalf("the backend read %d bytes (%v), want %d", len(got), err, len(up))
			}
			go func() { // the client's direction has ended, and this one works
				far.Write(down)
				far.CloseWrite()
			}()
			if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, down) {
				t.Fatalf("the client read %d bytes (%v), want %d", len(got), err, len(down))
			}
			r := w.expectRecord(ending.Complete)
			if r.Received != int64(len(up)) || r.Sent != int64(len(down)) || r.Backend != b.addr() {
				t.Errorf("recorded %d bytes received and %d sent, backend %s", r.Received, r.Sent, r.Backend)
			}
			if r.Connected.Before(r.Conn.Accepted) || r.FirstByte.Before(r.Connected) || r.Ended.Before(r.FirstByte) {
				t.Errorf("recorded times %v, %v, %v, %v", r.Conn.Accepted, r.Connected, r.FirstByte, r.Ended)
			}
		})
	}
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{})
	r.Read(b)
	return b
}

// TestProxyHeaderToBackend checks the first bytes that a backend gets if the client has sent a header with its
// address.
func TestProxyHeaderToBackend(t *testing.T) {
	const v2 = "\r\n\r\n\x00\r\nQUIT\n\x21"
	const client4, client6 = "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n", "PROXY TCP6 2001:db8::1 2001:db8::2 40000 443\r\n"
	for _, c := range []struct {
		name   string
		header stream.Header
		client string
		want   string
	}{
		{"none", stream.NoHeader, client4, ""},
		{"version 1, IPv4", stream.V1, client4, client4},
		{"version 1, IPv6", stream.V1, client6, client6},
		{"version 2, IPv4", stream.V2, client4, v2 + "\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x01\x9c\x40\x01\xbb"},
		{"version 2, IPv6", stream.V2, client6, v2 + "\x21\x00\x24" +
			"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
			"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x9c\x40\x01\xbb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBackend(t)
			w := start(t, stream.Settings{Header: c.header}, listen.Settings{ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, b.addr())
			conn := w.dial()
			io.WriteString(conn, c.client+"first\n")
			io.WriteString(conn, "second\n")
			conn.CloseWrite()
			got, err := io.ReadAll(b.accept(t))
			if want := c.want + "first\nsecond\n"; string(got) != want {
				t.Errorf("the backend read %q (%v), want %q", got, err, want)
			}
		})
	}
}

// TestProxyHeaderOfTheConnection checks the header for a client without one, which is the exact line
// of version 1.
func TestProxyHeaderOfTheConnection(t *testing.T) {
	b := startBackend(t)
	w := start(t, stream.Settings{Header: stream.V1}, listen.Settings{}, b.addr())
	conn := w.dial()
	from, to := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	want := fmt.Sprintf("PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\n", from.Port, to.Port)
	if got, err := bufio.NewReader(b.accept(t)).ReadString('\n'); got != want {
		t.Errorf("the backend read %q (%v), want %q", got, err, want)
	}
}

// TestUntrustedHeaderIsPassedOn checks that the header of a client that is not trusted comes after the
// edge's own, as data.
func TestUntrustedHeaderIsPassedOn(t *testing.T) {
	b := startBackend(t)
	w := start(t, stream.Settings{Header: stream.V1}, listen.Settings{}, b.addr())
	conn := w.dial()
	const forged = "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n"
	io.WriteString(conn, forged)
	r := bufio.NewReader(b.accept(t))
	if first, err := r.ReadString('\n'); first == forged || err != nil {
		t.Errorf("the backend's first line is %q (%v)", first, err)
	}
	if second, err := r.ReadString('\n'); second != forged {
		t.Errorf("the backend's second line is %q (%v)", second, err)
	}
}

// TestProxyHeaderComesBeforeTLS checks a backend that expects a PROXY header before TLS.
func TestProxyHeaderComesBeforeTLS(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	b := startBackend(t)
	w := start(t, stream.Settings{Header: stream.V1, BackendTLS: client}, listen.Settings{}, b.addr())
	conn := w.dial()
	go io.WriteString(conn, "hello\n")
	far := b.accept(t)
	line := make([]byte, len(fmt.Sprintf("PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\n", conn.LocalAddr().(*net.TCPAddr).Port, w.listener.Addr().Port())))
	if _, err := io.ReadFull(far, line); err != nil || !bytes.HasPrefix(line, []byte("PROXY ")) || !bytes.HasSuffix(line, []byte("\r\n")) {
		t.Fatalf("the backend read %q (%v)", line, err)
	}
	if got, err := bufio.NewReader(tls.Server(far, server)).ReadString('\n'); got != "hello\n" {
		t.Errorf("over TLS the backend read %q (%v)", got, err)
	}
}

// TestBadBackendsAreLeft checks that a client is served by the backend that works.
func TestBadBackendsAreLeft(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	otherServer, _ := kittest.LoopbackTLS(t)
	for _, c := range []struct {
		name string
		bad  netip.AddrPort
	}{
		{"refuses", deadAddr(t)},
		{"has a certificate of another authority", startEcho(t, otherServer)},
		{"does not speak TLS", startEcho(t, nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := startEcho(t, server)
			w := start(t, stream.Settings{BackendTLS: client}, listen.Settings{}, c.bad, good)
			for range 3 {
				conn := w.dial()
				if err := say(conn); err != nil {
					t.Fatal(err)
				}
				conn.Close()
				if r := w.expectRecord(ending.Complete); r.Backend != good {
					t.Errorf("served by %s, want %s", r.Backend, good)
				}
			}
		})
	}
}

func TestNoBackend(t *testing.T) {
	for _, backends := range [][]netip.AddrPort{nil, {deadAddr(t)}} {
		w := start(t, stream.Settings{}, listen.Settings{}, backends...)
		if err := w.ask(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("with the backends %v: %v, want a reset", backends, err)
		}
		if r := w.expectRecord(ending.NoBackend); r.Backend.IsValid() || !r.Connected.IsZero() {
			t.Errorf("recorded %+v", r)
		}
	}
}

// TestResetsArePassedOn checks that neither side takes a broken stream for a complete one, and that the record names the
// side that has broken it, while the connection waits and while it moves bytes in either direction.
func TestResetsArePassedOn(t *testing.T) {
	for name, want := range map[string]ending.Ending{"the client breaks": ending.ClientGone, "the backend breaks": ending.BackendGone} {
		for _, moves := range []string{"nothing", "bytes of the breaking side", "bytes of the other side"} {
			t.Run(name+", "+moves, func(t *testing.T) {
				b := startBackend(t)
				w := start(t, stream.Settings{}, listen.Settings{}, b.addr())
				breaks, other := w.dial(), b.accept(t)
				// The edge passes bytes on once it has connected. A backend that breaks before would be left for another one.
				if _, err := breaks.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if want == ending.BackendGone {
					breaks, other = other, breaks
				}
				switch moves {
				case "bytes of the breaking side":
					flood(t, breaks, other)
				case "bytes of the other side":
					flood(t, other, breaks)
				}
				breaks.SetLinger(0)
				breaks.Close()
				// The kernel reports a reset once, which is to the writing side if that writes.
				if _, err := io.Copy(io.Discard, other); !errors.Is(err, syscall.ECONNRESET) && moves != "bytes of the other side" {
					t.Errorf("the other side saw %v, want a reset", err)
				}
				w.expectRecord(want)
			})
		}
	}
}

// flood sends bytes from one side until the connection ends. It returns when the other side has read some.
func flood(t *testing.T, from io.Writer, to io.Reader) {
	t.Helper()
	go func() {
		for block := make([]byte, 1<<20); ; {
			if _, err := from.Write(block); err != nil {
				return
			}
		}
	}()
	if _, err := io.CopyN(io.Discard, to, 8<<20); err != nil {
		t.Fatal(err)
	}
}

// TestRemovedBackendDrains checks that a connection to a backend that was removed continues, and ends
// with the drain time.
func TestRemovedBackendDrains(t *testing.T) {
	old, next := startEcho(t, nil), startEcho(t, nil)
	w := start(t, stream.Settings{}, listen.Settings{}, old)
	conn := w.dial()
	if err := say(conn); err != nil {
		t.Fatal(err)
	}
	w.replace(next)
	if err := say(conn); err != nil {
		t.Errorf("a connection to the removed backend: %v", err)
	}
	fresh := w.dial()
	if err := say(fresh); err != nil {
		t.Fatal(err)
	}
	if got := w.pool.Sessions(); got[old] != 1 || got[next] != 1 {
		t.Errorf("sessions %v", got)
	}
}

// TestShutdown checks that connections continue while the server drains, and are reset at the end.
func TestShutdown(t *testing.T) {
	echo := startEcho(t, nil)
	t.Run("a connection ends in time", func(t *testing.T) {
		w := start(t, stream.Settings{}, listen.Settings{}, echo)
		conn := w.dial()
		if err := say(conn); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.shutdown(time.Hour)
		}()
		kittest.Eventually(t, "new connections to be reset", func() error {
			if w.ask() == nil {
				return errors.New("served")
			}
			return nil
		})
		if err := say(conn); err != nil {
			t.Errorf("while the server drains: %v", err)
		}
		conn.Close()
		kittest.Eventually(t, "the end", func() error {
			select {
			case <-done:
				return nil
			default:
				return errors.New("not yet")
			}
		})
	})
	t.Run("twice", func(t *testing.T) {
		w := start(t, stream.Settings{}, listen.Settings{}, echo)
		w.server.Shutdown(t.Context())
		w.shutdown(0)
	})
	t.Run("a connection stays", func(t *testing.T) {
		w := start(t, stream.Settings{}, listen.Settings{}, echo)
		conn := w.dial()
		if err := say(conn); err != nil {
			t.Fatal(err)
		}
		w.shutdown(time.Millisecond)
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client saw %v, want a reset", err)
		}
		w.expectRecord(ending.Stopped)
	})
}
