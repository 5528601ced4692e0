package stream_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/stream"
	"portolan.dev/services/kit/kittest"
)

// TestIdleConnectionsEnd checks that both sides of a silent connection are reset.
func TestIdleConnectionsEnd(t *testing.T) {
	server, client := kittest.LoopbackTLS(t)
	for _, secure := range []bool{false, true} {
		b, l := startBackend(t), listen.Settings{}
		if secure {
			l.TLS = func() *tls.Config { return server }
		}
		w := start(t, stream.Settings{IdleTimeout: 40 * time.Millisecond}, l, b.addr())
		conn := net.Conn(w.dial())
		if secure {
			conn = tls.Client(conn, client)
		}
		io.WriteString(conn, "hello\n")
		far := b.accept(t)
		for _, side := range []net.Conn{conn, far} {
			if _, err := io.Copy(io.Discard, side); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a side of an idle connection saw %v, want a reset", err)
			}
		}
		if r := w.expectRecord(ending.Idle); r.Ended.Sub(r.Connected) < 40*time.Millisecond {
			t.Errorf("the connection ended after %s", r.Ended.Sub(r.Connected))
		}
	}
}

// TestBytesInOneDirectionAreEnough checks that a connection on which only one side sends is not idle.
func TestBytesInOneDirectionAreEnough(t *testing.T) {
	const idle = 200 * time.Millisecond
	for _, sender := range []string{"client", "backend"} {
		t.Run(sender, func(t *testing.T) {
			b := startBackend(t)
			w := start(t, stream.Settings{IdleTimeout: idle}, listen.Settings{}, b.addr())
			from, to := w.dial(), b.accept(t)
			if sender == "backend" {
				from, to = to, from
			}
			for begin := time.Now(); time.Since(begin) < 3*idle; {
				sent := time.Now()
				if _, err := from.Write([]byte{1}); err == nil {
					_, err = to.Read(make([]byte, 1))
					if err == nil {
						continue
					}
				}
				if pause := time.Since(sent); pause < idle/2 {
					t.Fatalf("ended though bytes moved %s ago", pause)
				}
				return // the machine was too busy to keep the connection busy
			}
		})
	}
}

// TestIdleTimeoutChangesInPlace checks that established connections have the new timeout.
func TestIdleTimeoutChangesInPlace(t *testing.T) {
	w := start(t, stream.Settings{IdleTimeout: time.Hour}, listen.Settings{}, startEcho(t, nil))
	conn := w.dial()
	if err := say(conn); err != nil {
		t.Fatal(err)
	}
	w.server.Set(&stream.Settings{IdleTimeout: 20 * time.Millisecond})
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client saw %v, want a reset", err)
	}
	w.expectRecord(ending.Idle)
}
