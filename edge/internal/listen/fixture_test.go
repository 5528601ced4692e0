package listen_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/kit/kittest"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// world is a listener with a handler that sends a client its address and the address of the connection's other end,
// and then echoes.
type world struct {
	t        *testing.T
	listener *listen.Listener
	served   chan *listen.Conn

	mu      sync.Mutex
	refused map[listen.Reason]int
}

func start(t *testing.T, o listen.Options, s listen.Settings) *world {
	w := &world{t: t, refused: map[listen.Reason]int{}, served: make(chan *listen.Conn, 100)}
	o.Log = kittest.Logger(t)
	o.Refused = func(r listen.Reason) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused[r]++
	}
	var err error
	w.listener, err = listen.Open(netip.MustParseAddrPort("127.0.0.1:0"), o, w.settings(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.listener.Close()
		w.listener.Wait()
		if n := w.listener.Connections(); n != 0 {
			t.Errorf("%d connections after the end", n)
		}
	})
	return w
}

func (w *world) settings(s listen.Settings) *listen.Settings {
	s.Handle = func(c *listen.Conn) {
		defer c.Close()
		w.served <- c
		fmt.Fprintf(c, "%s %s\n", c.RemoteAddr(), c.LocalAddr())
		io.Copy(c, c) //nolint:errcheck // the client notices
	}
	return &s
}

// connect connects from a loopback address, and writes data.
func (w *world) connect(source, data string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	conn, err := d.Dial("tcp", w.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(conn, data)
	return conn, err
}

// dialFrom connects from a loopback address, and writes data.
func (w *world) dialFrom(source, data string) net.Conn {
	w.t.Helper()
	conn, err := w.connect(source, data)
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func (w *world) dial(data string) net.Conn {
	w.t.Helper()
	return w.dialFrom("127.0.0.1", data)
}

// expectResetOf fails unless a client that writes data is reset, which it may see while it connects.
func (w *world) expectResetOf(source, data string) {
	w.t.Helper()
	conn, err := w.connect(source, data)
	if err == nil {
		_, err = conn.Read(make([]byte, 100))
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		w.t.Errorf("the client saw %v, want a reset", err)
	}
}

// expectRefused waits until as many connections were refused for each reason.
func (w *world) expectRefused(want map[listen.Reason]int) {
	w.t.Helper()
	kittest.Eventually(w.t, "connections to be refused", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !maps.Equal(w.refused, want) {
			return fmt.Errorf("refused %v, want %v", w.refused, want)
		}
		return nil
	})
}
