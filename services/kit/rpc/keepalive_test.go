package rpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"portolan.dev/services/kit/rpc"
)

// cable connects a client with a server. Once it is cut, packets vanish in both directions, and neither side is told.
type cable struct {
	cut   atomic.Bool
	dials atomic.Int64
}

// cableEnd is the client's end of a cable.
type cableEnd struct {
	net.Conn
	cable *cable
}

func (e *cableEnd) Write(b []byte) (int, error) {
	if e.cable.cut.Load() {
		return len(b), nil
	}
	return e.Conn.Write(b)
}

func (e *cableEnd) Read(b []byte) (int, error) {
	for {
		n, err := e.Conn.Read(b)
		if err != nil || !e.cable.cut.Load() {
			return n, err
		}
	}
}

// Close closes the end. The server is not told if the cable is cut.
func (e *cableEnd) Close() error {
	if e.cable.cut.Load() {
		return e.Conn.SetReadDeadline(time.Now())
	}
	return e.Conn.Close()
}

// serveOverCable serves e at the other end of a cable.
func serveOverCable(t *testing.T, e *echo) (*fixture, *cable) {
	t.Helper()
	lis, c := bufconn.Listen(1<<20), &cable{}
	f := serveEcho(t, e, lis, nil)
	conn, err := rpc.TCP().Dial("passthrough:///echo", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		c.dials.Add(1)
		if c.cut.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		conn, err := lis.DialContext(ctx)
		return &cableEnd{conn, c}, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f.conn = conn
	return f, c
}

// pushes is a stream that sends one message, and then waits for its end. It reports the time of the end.
func pushes(ended chan<- time.Time) func(grpc.ServerStream) error {
	return func(ss grpc.ServerStream) error {
		if err := ss.SendMsg(newText("first")); err != nil {
			return err
		}
		<-ss.Context().Done()
		ended <- time.Now()
		return nil
	}
}

// about fails unless an event came after so much time, give or take a second.
func about(t *testing.T, event string, took, want time.Duration) {
	t.Helper()
	if (took - want).Abs() > time.Second {
		t.Errorf("%s after %s, want %s", event, took, want)
	}
}

// TestBothSidesNoticeThatPacketsVanish cuts the cable below a watch. A client that did not ping would wait forever for
// the next change, with a view that gets older and older. A server that did not ping would keep the stream of a client
// that is gone, and count it against its limits. The client pings after 20 s of silence, the server after 30 s, and
// both wait 10 s for the answer: a shorter wait would end connections over a network that is only slow.
func TestBothSidesNoticeThatPacketsVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		f, c := serveOverCable(t, &echo{stream: pushes(ended)})
		stream := f.open(t.Context(), t)
		if err := stream.RecvMsg(newText("")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cut := time.Now()
		c.cut.Store(true)
		giveUp := time.AfterFunc(time.Hour, func() { f.conn.Close() }) // without pings both sides would wait forever
		defer giveUp.Stop()
		if err := stream.RecvMsg(newText("")); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ends with %v", err)
		}
		about(t, "the client notices", time.Since(cut), 30*time.Second)
		about(t, "the server notices", (<-ended).Sub(cut), 40*time.Second)
	})
}

// TestAnIdleClientNoticesThatPacketsVanish cuts the cable below a connection without calls. If the client pinged only
// during calls, its next call would go to the dead connection, and would wait until its own deadline.
func TestAnIdleClientNoticesThatPacketsVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := serveOverCable(t, &echo{unary: func(_ context.Context, req *text) (*text, error) { return req, nil }})
		if got, err := f.call(t.Context(), "hello"); err != nil || got != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
		synctest.Wait()
		cut := time.Now()
		c.cut.Store(true)
		within, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if !f.conn.WaitForStateChange(within, connectivity.Ready) {
			t.Fatal("the client does not notice")
		}
		about(t, "the client notices", time.Since(cut), 30*time.Second)
	})
}

// TestTheServerAllowsThePingsOfItsClients leaves a connection alone for a long time, with and without a stream. If
// clients pinged more often than the server allows, the server would close their connections again and again.
func TestTheServerAllowsThePingsOfItsClients(t *testing.T) {
	for name, streams := range map[string]bool{"a stream": true, "no stream": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Time, 1)
				f, c := serveOverCable(t, &echo{stream: pushes(ended), unary: func(_ context.Context, req *text) (*text, error) { return req, nil }})
				if streams {
					f.mustOpen(t.Context(), t)
				} else if _, err := f.call(t.Context(), "hello"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Minute) // less than the 30 min after which the library closes an idle connection
				synctest.Wait()
				if state := f.conn.GetState(); state != connectivity.Ready || c.dials.Load() != 1 || len(ended) > 0 {
					t.Errorf("the connection is %s after %d dials; the stream has ended: %v", state, c.dials.Load(), len(ended) > 0)
				}
			})
		})
	}
}
