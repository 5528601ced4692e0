package edge_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"golang.org/x/net/http2"

	"portolan.dev/services/kit/kittest"

	"portolan.dev/edge/internal/health"
)

// pairOf serves connections at two addresses with the same port.
func pairOf(t *testing.T, serve func(net.Listener)) []string {
	t.Helper()
	first := listenAt(t, netip.MustParseAddrPort("127.0.0.1:0"))
	second := listenAt(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), netip.MustParseAddrPort(first.Addr().String()).Port()))
	go serve(first)
	go serve(second)
	return []string{first.Addr().String(), second.Addr().String()}
}

// TestClientsCannotEjectBackends lets clients end connections and requests in ways that are no fault of a backend, each
// more often than the failures that eject one. A backend that fails as often is ejected, so that the test can fail.
func TestClientsCannotEjectBackends(t *testing.T) {
	w := newWorld(t)
	w.start()
	begun := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: answerTimeout, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/wait":
			begun <- struct{}{}
			<-r.Context().Done()
		}
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the client ends it
	})}
	t.Cleanup(func() { server.Close() })
	requests := w.service("requests", annotations{"backend-protocol": "http", "check": "false", "idle-timeout": "1s"},
		pairOf(t, func(lis net.Listener) { server.Serve(lis) })...) //nolint:errcheck // it is closed
	streams := w.service("streams", annotations{"check": "false"}, pairOf(t, func(lis net.Listener) {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(io.Discard, c) //nolint:errcheck // the client ends it
			}()
		}
	})...)
	often := 4 * health.DefaultEjection.Failures
	var stopped []net.Conn // they stay open
	defer func() {
		for _, c := range stopped {
			c.Close()
		}
	}()
	for _, misuse := range []struct {
		name     string
		frontend netip.AddrPort
		once     func(*client)
		ejects   bool
	}{
		{"a connection is reset after a byte", streams, func(c *client) {
			fmt.Fprint(c, "x")
			c.Conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // then it is closed
		}, false},
		{"a chunk is invalid", requests, func(c *client) {
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno chunk\r\n")
			io.Copy(io.Discard, c) //nolint:errcheck // until the edge ends it
		}, false},
		{"an upload ends", requests, func(c *client) {
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 1000\r\n\r\nabc")
		}, false},
		{"an upload stops", requests, func(c *client) {
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 1000\r\n\r\nabc")
			stopped = append(stopped, c.Conn)
			c.Conn = nil
		}, false},
		{"a request of HTTP/2 is cancelled", requests, func(c *client) { cancelOne(t, c, begun) }, false},
		{"the backend aborts", requests, func(c *client) {
			fmt.Fprint(c, "GET /abort HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
			io.Copy(io.Discard, c) //nolint:errcheck // until the edge ends it
		}, true},
	} {
		before := w.ended()
		for range often {
			c := dial(t, misuse.frontend)
			misuse.once(c)
			if c.Conn != nil {
				c.Close()
			}
		}
		kittest.Eventually(t, misuse.name+": the end of all", func() error {
			if n := w.ended() - before; n < float64(often) {
				return fmt.Errorf("%g have ended", n)
			}
			return nil
		})
		p, err := w.port(misuse.frontend)
		if err != nil {
			t.Fatal(err)
		}
		ejected := 0
		for _, b := range p.GetBackends() {
			if !b.GetUsable() {
				ejected++
			}
		}
		if (ejected > 0) != misuse.ejects {
			t.Errorf("%s: %d backends are ejected, want that: %v", misuse.name, ejected, misuse.ejects)
		}
	}
}

// ended returns the number of connections of layer 4 and of requests that have ended.
func (w *world) ended() float64 {
	return w.sum("portolan_edge_connections_ended_total") + w.sum("portolan_edge_requests_ended_total")
}

// sum returns the sum of the counters of a metric.
func (w *world) sum(name string) (sum float64) {
	w.Helper()
	families, err := w.host.Metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// cancelOne cancels a request of HTTP/2 that a backend has got.
func cancelOne(t *testing.T, c *client, begun <-chan struct{}) {
	conn, err := (&http2.Transport{AllowHTTP: true}).NewClientConn(c.Conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://web/wait", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		cancel()
	}()
	if res, err := conn.RoundTrip(req); err == nil {
		res.Body.Close()
	}
}
