package stream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/stream"
	"portolan.dev/services/backends"
	"portolan.dev/services/kit/kittest"
)

// world is an edge with one port of layer 4.
type world struct {
	t        *testing.T
	pool     *backends.Pool
	server   *stream.Server
	listener *listen.Listener
	records  chan *stream.Record
	shut     bool
}

// start starts an edge for the backends at the given addresses.
func start(t *testing.T, s stream.Settings, l listen.Settings, addrs ...netip.AddrPort) *world {
	w := &world{t: t, records: make(chan *stream.Record, 100), pool: backends.NewPool(backends.Options{})}
	w.replace(addrs...)
	w.server = stream.New(stream.Options{
		Log: kittest.Logger(t), Pool: w.pool, Finished: func(r *stream.Record) { w.records <- r },
	}, &s)
	l.Handle = w.server.Handle
	var err error
	w.listener, err = listen.Open(netip.MustParseAddrPort("127.0.0.1:0"), listen.Options{Log: kittest.Logger(t)}, &l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.listener.Close()
		w.shutdown(0)
		w.listener.Wait()
		if n := w.listener.Connections(); n != 0 {
			t.Errorf("%d connections after the end", n)
		}
		for addr, n := range w.pool.Sessions() {
			if n != 0 {
				t.Errorf("%d sessions at %s after the end", n, addr)
			}
		}
	})
	return w
}

// shutdown shuts the server down, with a time for draining.
func (w *world) shutdown(drain time.Duration) {
	if !w.shut {
		w.shut = true
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		w.server.Shutdown(ctx)
	}
}

func (w *world) replace(addrs ...netip.AddrPort) {
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	s := &backends.Server{Drain: time.Hour}
	for _, b := range addrs {
		s.Backends = append(s.Backends, backends.Real{Addr: b, Weight: 1})
	}
	w.pool.Replace(s)
}

func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn.(*net.TCPConn)
}

// ask sends a line over a new connection. A refused client may see the refusal while it connects.
func (w *world) ask() error {
	conn, err := net.Dial("tcp", w.listener.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	return say(conn)
}

func (w *world) expectRecord(want ending.Ending) *stream.Record {
	w.t.Helper()
	r := kittest.Receive(w.t, "the record of the connection", w.records)
	if r.Ending != want {
		w.t.Errorf("the connection ended as %s, want %s", r.Ending, want)
	}
	return r
}

// backend is a listener. The test serves its connections.
type backend struct {
	lis   net.Listener
	conns chan net.Conn
}

func startBackend(t *testing.T) *backend {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{lis: lis, conns: make(chan net.Conn, 100)}
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(time.Minute))
			b.conns <- conn
		}
	}()
	t.Cleanup(func() {
		lis.Close()
		for len(b.conns) > 0 {
			(<-b.conns).Close()
		}
	})
	return b
}

func (b *backend) addr() netip.AddrPort { return b.lis.Addr().(*net.TCPAddr).AddrPort() }

// accept returns the next connection of the edge.
func (b *backend) accept(t *testing.T) *net.TCPConn {
	t.Helper()
	conn := kittest.Receive(t, "a connection to the backend", b.conns)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// startEcho starts a backend that returns all bytes that it reads, over TLS if there is a configuration.
func startEcho(t *testing.T, config *tls.Config) netip.AddrPort {
	b := startBackend(t)
	go func() {
		for {
			conn, ok := <-b.conns
			if !ok {
				return
			}
			if config != nil {
				conn = tls.Server(conn, config)
			}
			go func() {
				defer conn.Close()
				io.Copy(conn, conn) //nolint:errcheck // the client notices
			}()
		}
	}()
	return b.addr()
}

// deadAddr returns an address that refuses connections.
func deadAddr(t *testing.T) netip.AddrPort {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

// say expects a line back that it sends.
func say(conn io.ReadWriter) error {
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "hello\n" {
		err = fmt.Errorf("got %q", line)
	}
	return err
}
