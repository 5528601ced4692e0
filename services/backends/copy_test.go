package backends_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"portolan.dev/services/backends"
	"portolan.dev/services/kit/kittest"
)

// line is a client's connection through a proxy to a backend.
type line struct {
	client, backend *net.TCPConn
	session         *backends.Connection
	done            chan struct{} // closed at the end
}

func listener(t testing.TB) *net.TCPListener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return lis.(*net.TCPListener)
}

// pair returns both ends of a connection.
func pair(t testing.TB, lis *net.TCPListener) (dialled, accepted *net.TCPConn) {
	t.Helper()
	conn, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = lis.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	dialled = conn.(*net.TCPConn)
	for _, c := range []*net.TCPConn{dialled, accepted} {
		c.SetDeadline(time.Now().Add(time.Minute))
		t.Cleanup(func() { c.Close() })
	}
	return dialled, accepted
}

func connect(t testing.TB) *line {
	t.Helper()
	front, back := listener(t), listener(t)
	client, accepted := pair(t, front)
	accepted.SetDeadline(time.Time{})
	l := &line{client: client, session: backends.NewConnection(accepted), done: make(chan struct{})}
	p := backends.NewPool(backends.Options{})
	p.Replace(&backends.Server{Backends: []backends.Real{{Addr: back.Addr().(*net.TCPAddr).AddrPort(), Weight: 1}}})
	b := (&backends.Dialer{}).Connect(t.Context(), &backends.Target{Pool: p}, l.session)
	if b == nil {
		t.Fatal("not connected")
	}
	var err error
	if l.backend, err = back.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	l.backend.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() {
		l.client.Close()
		l.backend.Close()
		<-l.done
		if n := p.Sessions()[b.Addr()]; n != 0 {
			t.Errorf("%d sessions after the end", n)
		}
	})
	l.session.Copy(accepted, l.session.Server(), func() {
		p.Release(b, l.session, netip.Addr{})
		close(l.done)
	})
	return l
}

// TestCopy sends pieces of random sizes both ways, so that few bytes are read and many are spliced,
// and checks that all arrive in order.
func TestCopy(t *testing.T) {
	l := connect(t)
	sent := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(sent)
	send := func(to *net.TCPConn, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(1<<r.IntN(21)))
			if _, err := to.Write(rest[:n]); err != nil {
				t.Error(err)
				break
			}
			rest = rest[n:]
		}
		to.CloseWrite()
	}
	go send(l.client, 1)
	go send(l.backend, 2)
	received := make(chan []byte, 1)
	go func() {
		got, _ := io.ReadAll(l.client) //nolint:errcheck // missing bytes are noticed
		received <- got
	}()
	if got, err := io.ReadAll(l.backend); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the backend got %d bytes (%v)", len(got), err)
	}
	if got := kittest.Receive(t, "the client's bytes", received); !bytes.Equal(got, sent) {
		t.Errorf("the client got %d bytes", len(got))
	}
	<-l.done
	if l.session.Received() != int64(len(sent)) || l.session.Sent() != int64(len(sent)) || l.session.Aborted() {
		t.Errorf("counted %d bytes received and %d sent; aborted: %t", l.session.Received(), l.session.Sent(), l.session.Aborted())
	}
}

// TestSlowReaderMakesProgress checks that a client that reads a little of many bytes makes progress,
// though this process may be in one splice for a long time.
func TestSlowReaderMakesProgress(t *testing.T) {
	l := connect(t)
	l.client.SetReadBuffer(4096)
	go l.backend.Write(make([]byte, 32<<20)) //nolint:errcheck // ends with the connection
	stalled := uint64(0)
	kittest.Eventually(t, "the buffers to be full", func() error {
		before := stalled
		if stalled = l.session.Progress(); stalled == 0 || stalled != before {
			return errors.New("bytes still move")
		}
		return nil
	})
	kittest.Eventually(t, "progress", func() error {
		if _, err := io.CopyN(io.Discard, l.client, 64<<10); err != nil {
			t.Fatal(err)
		}
		if l.session.Progress() == stalled {
			return errors.New("no progress")
		}
		return nil
	})
	l.session.Abort()
}

// TestEndOfOneSide checks that the end of one direction is passed on, that the other continues, and
// that a reset is passed on as a reset.
func TestEndOfOneSide(t *testing.T) {
	l := connect(t)
	l.client.CloseWrite()
	if n, err := l.backend.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the backend read %d bytes (%v), want the end", n, err)
	}
	l.backend.Write([]byte("x"))
	if _, err := io.ReadFull(l.client, make([]byte, 1)); err != nil {
		t.Errorf("after the client's end: %v", err)
	}
	l.backend.SetLinger(0)
	l.backend.Close()
	if _, err := l.client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client saw %v, want a reset", err)
	}
	<-l.done
	if !l.session.Aborted() {
		t.Error("the connection counts as complete")
	}
}

func TestAbortEndsCopying(t *testing.T) {
	l := connect(t)
	l.session.Abort()
	for _, side := range []net.Conn{l.client, l.backend} {
		if _, err := side.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a side saw %v, want a reset", err)
		}
	}
	<-l.done
}
