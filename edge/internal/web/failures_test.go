package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"portolan.dev/edge/internal/web"
	"portolan.dev/services/kit/kittest"
)

// TestFailuresTellTheSide checks the responses of the edge itself.
func TestFailuresTellTheSide(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		c.IdleTimeout = 300 * time.Millisecond
		get := func(t *testing.T, e *edge) (*http.Response, string) {
			conn := connect(t, e.addr)
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			return conn.response("GET")
		}
		answer := func(text string) func(net.Conn) {
			return func(conn net.Conn) {
				readHead(bufio.NewReader(conn))
				io.WriteString(conn, text)
			}
		}
		t.Run("no backend", func(t *testing.T) {
			res, body := get(t, startEdge(t, c, nil))
			wantStatus(t, res, body, 503, "edge: ")
		})
		t.Run("refused", func(t *testing.T) {
			e := startEdge(t, c, nil, closedPort(t))
			res, body := get(t, e)
			wantStatus(t, res, body, 502, "backend: it accepts no connections")
			if r := e.record(t, 1); r.Status != 502 || r.BackendStatus != 0 || r.RequestTime != -1 || r.BackendTime != -1 {
				t.Errorf("record %+v", r)
			}
		})
		t.Run("closed", func(t *testing.T) {
			res, body := get(t, startEdge(t, c, nil, startRaw(t, answer(""))))
			wantStatus(t, res, body, 502, "backend: it closed")
		})
		t.Run("closed in the head", func(t *testing.T) {
			res, body := get(t, startEdge(t, c, nil, startRaw(t, answer("HTTP/1.1 200 OK\r\nA: b\r\n"))))
			wantStatus(t, res, body, 502, "backend: it closed")
		})
		t.Run("invalid", func(t *testing.T) {
			res, body := get(t, startEdge(t, c, nil, startRaw(t, answer("SSH-2.0\r\n\r\n"))))
			wantStatus(t, res, body, 502, "backend: its response is invalid")
		})
		t.Run("unasked change of the protocol", func(t *testing.T) {
			res, body := get(t, startEdge(t, c, nil, startRaw(t, answer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"))))
			wantStatus(t, res, body, 502, "backend: its response is invalid")
		})
		t.Run("silent", func(t *testing.T) {
			res, body := get(t, startEdge(t, c, nil, startRaw(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })))
			wantStatus(t, res, body, 504, "backend: it does not respond in time")
		})
	})
}

// TestBrokenBodies checks that a client can tell a broken response from a complete one.
func TestBrokenBodies(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		for _, response := range []string{
			"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx",
		} {
			e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
				readHead(bufio.NewReader(conn))
				io.WriteString(conn, response)
			}))
			conn := connect(t, e.addr)
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			res, err := http.ReadResponse(conn.r, nil)
			if err != nil {
				continue // the edge had not begun to send it
			}
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%q: got the complete body %q", response, body)
			}
		}
	})
}

// TestAnotherBackend checks that a request goes to another backend if one cannot be reached, with its
// body.
func TestAnotherBackend(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, closedPort(t), closedPort(t), startHTTP(t, echo))
		for i := range 3 {
			conn := connect(t, e.addr)
			conn.send("POST /%d HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n%s", i, strings.Repeat("a", 100000))
			if _, body := conn.response("POST"); body != fmt.Sprintf("POST /%d h 100000", i) {
				t.Fatalf("got %q", body)
			}
		}
	})
}

// TestStaleConnections checks that a request on a connection that the backend closes is sent again if
// it is idempotent, and never otherwise.
func TestStaleConnections(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		var requests, posts atomic.Int64
		// The backend closes each connection at its second request.
		e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			for n := 0; ; n++ {
				head := readHead(r)
				if head == "" {
					return
				}
				requests.Add(1)
				if strings.HasPrefix(head, "POST") {
					posts.Add(1)
				}
				if n == 1 {
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}))
		conn := connect(t, e.addr)
		for range 4 {
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			if _, body := conn.response("GET"); body != "ok" {
				t.Fatalf("got %q", body)
			}
		}
		if requests.Load() < 5 {
			t.Fatalf("%d requests: no connection was used twice", requests.Load())
		}
		conn.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
		res, body := conn.response("POST")
		if n := posts.Load(); n != 1 || res.StatusCode == 502 && !strings.Contains(body, "backend: ") {
			t.Fatalf("%d POST reached the backend; %d %q", n, res.StatusCode, body)
		}
	})
}

// TestSlowClients checks the times for a head and for a body.
func TestSlowClients(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		c.HeaderTimeout, c.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
		e := startEdge(t, c, nil, startHTTP(t, echo))
		t.Run("nothing", func(t *testing.T) { connect(t, e.addr).closed() })
		t.Run("head", func(t *testing.T) {
			conn := connect(t, e.addr)
			stop := make(chan struct{})
			defer close(stop)
			go func() { // a byte now and then does not help
				for _, b := range "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 10000) {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
						io.WriteString(conn, string(b))
					}
				}
			}()
			io.Copy(io.Discard, conn) //nolint:errcheck // the end or a reset
		})
		t.Run("idle", func(t *testing.T) {
			conn := connect(t, e.addr)
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			conn.response("GET")
			conn.closed()
		})
		for _, body := range []string{"Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
			conn := connect(t, e.addr)
			conn.send("POST / HTTP/1.1\r\nHost: h\r\n%s", body)
			res, got := conn.response("POST")
			if res.StatusCode != 408 && res.StatusCode != 504 {
				t.Fatalf("got %d %q", res.StatusCode, got)
			}
		}
	})
}

// TestEarlyResponse checks a response that comes before the body of the request, which is then not
// sent.
func TestEarlyResponse(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
			readHead(bufio.NewReader(conn))
			io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		}))
		for _, framing := range []string{"Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			conn := connect(t, e.addr)
			conn.send("POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", framing)
			res, body := conn.response("POST")
			if res.StatusCode != 413 || body != "big" {
				t.Fatalf("got %d %q", res.StatusCode, body)
			}
			conn.closed()
		}
	})
}

// TestClientLeaves checks that a request ends when its client leaves, and the backend is free again.
func TestClientLeaves(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		gone := make(chan struct{})
		e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
			io.Copy(io.Discard, conn)
			gone <- struct{}{}
		}))
		conn := connect(t, e.addr)
		conn.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
		kittest.Eventually(t, "a session", func() error { return wantSessions(e, 1) })
		conn.Close()
		<-gone
		kittest.Eventually(t, "no session", func() error { return wantSessions(e, 0) })
	})
}

func wantSessions(e *edge, want uint32) error {
	var got uint32
	for _, n := range e.pool.Sessions() {
		got += n
	}
	if got != want {
		return fmt.Errorf("%d sessions, want %d", got, want)
	}
	return nil
}

// TestBackendRemoved checks that idle connections to a removed backend are closed, and that a request
// in flight completes.
func TestBackendRemoved(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		closed, begun, finish := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
		backend := startRaw(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			for {
				head := readHead(r)
				if head == "" {
					closed <- struct{}{}
					return
				}
				if strings.Contains(head, "/slow") {
					close(begun)
					<-finish
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		})
		e := startEdge(t, c, nil, backend)
		slow, quick := connect(t, e.addr), connect(t, e.addr)
		slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-begun
		quick.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		quick.response("GET")
		e.record(t, 1)
		e.setBackends()
		<-closed // the idle connection
		close(finish)
		if _, body := slow.response("GET"); body != "ok" {
			t.Fatalf("got %q", body)
		}
		<-closed // the connection of the slow request
		quick.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		res, body := quick.response("GET")
		wantStatus(t, res, body, 503, "edge: ")
	})
}

// TestShutdown checks that requests in flight complete, with the end of their connection announced, and
// that they end at the end of the time.
func TestShutdown(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		finish := make(chan struct{})
		backend := startRaw(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			head := readHead(r)
			if strings.Contains(head, "/slow") {
				<-finish
			}
			if strings.Contains(head, "/never") {
				io.Copy(io.Discard, conn)
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		})
		e := startEdge(t, c, nil, backend)
		slow, never, idle := connect(t, e.addr), connect(t, e.addr), connect(t, e.addr)
		idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		idle.response("GET")
		slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		never.send("GET /never HTTP/1.1\r\nHost: h\r\n\r\n")
		kittest.Eventually(t, "two requests", func() error { return wantSessions(e, 2) })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			e.Shutdown(ctx)
			close(ended)
		}()
		idle.closed()
		close(finish)
		if res, body := slow.response("GET"); body != "ok" || !res.Close {
			t.Fatalf("got %q, Connection: close %t", body, res.Close)
		}
		slow.closed()
		cancel()
		<-ended
		if rest, _ := io.ReadAll(never); len(rest) > 0 && !strings.HasPrefix(string(rest), "HTTP/1.1 502") {
			t.Fatalf("got %q", rest)
		}
		kittest.Eventually(t, "no session", func() error { return wantSessions(e, 0) })
	})
}

// TestUpdate checks that new settings apply to the next request of a connection, and that a request in flight completes
// under the settings with which it began.
func TestUpdate(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		begun, finish := make(chan struct{}), make(chan struct{})
		e := startEdge(t, c, nil, startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(begun)
				<-finish
			}
			fmt.Fprint(w, r.ProtoMajor)
		}))
		slow, old := connect(t, e.addr), connect(t, e.addr)
		old.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, body := old.response("GET"); body != "1" {
			t.Fatal(body)
		}
		slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-begun
		c.Protocol = web.H2C
		e.Update(c)
		close(finish)
		for _, conn := range []*client{slow, connect(t, e.addr)} {
			if conn == slow {
				if res, body := conn.response("GET"); body != "1" || res.Close {
					t.Fatalf("got %q, Connection: close %t", body, res.Close)
				}
			}
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			if _, body := conn.response("GET"); body != "2" {
				t.Fatalf("got %q", body)
			}
		}
		old.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
		if _, body := old.response("POST"); body != "2" {
			t.Fatal(body)
		}
	})
}

// TestTheIdleTimeoutChangesForWaitingConnections lets connections wait under a long timeout, which then becomes short.
func TestTheIdleTimeoutChangesForWaitingConnections(t *testing.T) {
	e := startEdge(t, web.Config{IdleTimeout: time.Hour}, nil, startHTTP(t, echo))
	conn := connect(t, e.addr)
	conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	conn.response("GET")
	e.record(t, 1)
	e.Update(web.Config{IdleTimeout: 100 * time.Millisecond})
	conn.closed()
}

// TestShutdownServesWhatHasArrived lets requests arrive while connections wait and the server is shut down. Each must be
// answered, because a client does not send a POST again.
func TestShutdownServesWhatHasArrived(t *testing.T) {
	for range 50 {
		e := startEdge(t, web.Config{}, nil, startHTTP(t, echo))
		conn := connect(t, e.addr)
		const post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"
		conn.send(post)
		conn.response("POST")
		conn.send(post + post)
		e.Shutdown(t.Context())
		for range 2 {
			res, body := conn.response("POST")
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d, %q", res.StatusCode, body)
			}
			if res.Close { // it tells the client that the second one was not served
				break
			}
		}
	}
}

// TestSlowReaders checks that a client which takes nothing of its response does not occupy a backend for
// longer than the idle time.
func TestSlowReaders(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		c.IdleTimeout = 300 * time.Millisecond
		for _, size := range []string{"Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
				readHead(bufio.NewReader(conn))
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", size)
				part := strings.Repeat("x", 0x1000)
				if strings.HasPrefix(size, "Transfer") {
					part = "1000\r\n" + part + "\r\n"
				}
				for {
					if _, err := io.WriteString(conn, part); err != nil {
						return
					}
				}
			}))
			conn := connect(t, e.addr)
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			e.record(t, 1)
			kittest.Eventually(t, "no session", func() error { return wantSessions(e, 0) })
		}
	})
}
