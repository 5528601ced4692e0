package edge_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"portolan.dev/services/balancer"
)

// changedTo has the values to which TestAnnotationsChangeUnderLoad changes each annotation of an edge.
var changedTo = map[string]string{
	"proxy-protocol": "v2", "proxy-protocol-from": "192.0.2.0/24", "tls-cert": "secret/none", "tls-ports": "7", "tls-policy": "modern",
	"backend-ca": "secret/none", "backend-server-name": "web.example", "access-log": "true", "access-log-interval": "5m", "access-log-dir": "logs",
	"access-log-prefix": "web", "access-log-format": "json", "drain": "false", "drain-timeout": "7s", "idle-timeout": "20s", "cross-zone": "false",
	"check": "true", "check-protocol": "http", "check-path": "/ready", "check-port": "1", "check-interval": "1s", "check-timeout": "200ms",
	"check-healthy": "3", "check-unhealthy": "3", "source-groups": "none", "tags": "a=b",
}

// TestAnnotationsChangeUnderLoad changes every annotation of a live service at each layer, and back, while connections
// are under way. None of them may end, and no request may fail, whichever moment the annotation acts from.
func TestAnnotationsChangeUnderLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		protocol, next string
		open           func(*testing.T, *live) []func() error
	}{
		"layer 4":           {"tcp", "http", streams},
		"layer 7":           {"http", "tcp", exchanges},
		"layer 7 to HTTP/2": {"http", "h2c", exchanges},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLive(t, tc.protocol)
			open := tc.open(t, l)
			check := func(change string) {
				for i, goesOn := range open {
					if err := goesOn(); err != nil {
						t.Fatalf("%s: connection %d: %v", change, i, err)
					}
				}
			}
			check("before all changes")
			for _, row := range balancer.Annotations() {
				annotation := strings.TrimPrefix(row.Name, balancer.Prefix)
				value, known := changedTo[annotation]
				switch {
				case row.By != balancer.ByEdge || annotation == balancer.Prefix:
					continue
				case annotation == "backend-protocol":
					value = tc.next
				case !known:
					t.Errorf("there is no value for a change of %s", annotation)
				}
				l.set(annotations{annotation: value})
				check(annotation + "=" + value)
				l.set(nil)
				check("without " + annotation)
			}
		})
	}
}

// live is a service whose settings are changed while it has connections.
type live struct {
	*world
	base          annotations
	frontend      netip.AddrPort
	marker        netip.AddrPort
	markerBackend int
	ticks         chan struct{} // parts of the response to /stream
}

func newLive(t *testing.T, protocol string) *live {
	w := newWorld(t)
	w.start()
	l := &live{world: w, base: annotations{"backend-protocol": protocol, "check": "false"}, ticks: make(chan struct{})}
	var backendAddr string
	if protocol == "tcp" {
		backendAddr = backend(t, greet("web"))
	} else {
		backendAddr = startWeb(t, "web", func(s *http.Server) {
			s.Handler = http.HandlerFunc(l.answer)
			s.Protocols = new(http.Protocols)
			s.Protocols.SetHTTP1(true)
			s.Protocols.SetUnencryptedHTTP2(true)
		}).addr
	}
	l.frontend = w.service("web", l.base, backendAddr)
	l.marker = w.service("marker", annotations{"check": "false"})
	return l
}

// set changes the annotations of the service to those of the beginning and others, and waits until the edge has them.
func (l *live) set(others annotations) {
	l.Helper()
	all := maps.Clone(l.base)
	maps.Copy(all, others)
	l.log.Put(l.object("web", l.frontend, all))
	l.settle()
}

// settle waits until the edge has applied the changes so far. They are applied in their order, so a later one tells.
func (l *live) settle() {
	l.Helper()
	l.markerBackend = 1 - l.markerBackend
	l.log.Put(slice("marker", []string{"127.0.0.1:9"}[:l.markerBackend]...))
	l.waitFor(l.marker, l.markerBackend)
}

// answer is the handler of the backend at layer 7.
func (l *live) answer(out http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/stream":
		for {
			select {
			case <-l.ticks:
				fmt.Fprintln(out, "tick")
				out.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case "/tunnel":
		conn, buffered, err := out.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, buffered) //nolint:errcheck // the client ends it
	default:
		io.Copy(out, r.Body) //nolint:errcheck // the client notices missing bytes
	}
}

// streams opens connections of layer 4.
func streams(t *testing.T, l *live) []func() error {
	c := dial(t, l.frontend)
	if line, err := c.line(); err != nil || line != "web" {
		t.Fatalf("%q, %v", line, err)
	}
	return []func() error{func() error { return echoes(c) }}
}

func echoes(c *client) error {
	c.SetDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // then asking fails
	if line, err := c.ask("still there?"); err != nil || line != "still there?" {
		return fmt.Errorf("%q, %v", line, err)
	}
	return nil
}

// exchanges opens connections of layer 7: with one request after the other, by both versions of HTTP; with a response
// that goes on; and with another protocol.
func exchanges(t *testing.T, l *live) []func() error {
	posts, stream, tunnel := dial(t, l.frontend), dial(t, l.frontend), dial(t, l.frontend)
	fmt.Fprint(stream, "GET /stream HTTP/1.1\r\nHost: web\r\n\r\n")
	fmt.Fprint(tunnel, "GET /tunnel HTTP/1.1\r\nHost: web\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	if res, err := http.ReadResponse(tunnel.in, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	l.ticks <- struct{}{}
	res, err := http.ReadResponse(stream.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(res.Body)
	if line, err := body.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return []func() error{
		func() error { return posted(posts) },
		func() error {
			l.ticks <- struct{}{}
			stream.SetDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // then reading fails
			line, err := body.ReadString('\n')
			if err != nil {
				return fmt.Errorf("%q, %w", line, err)
			}
			return nil
		},
		func() error { return echoes(tunnel) },
		onePostAfterAnother(t, l.frontend),
	}
}

// posted sends a POST, and wants its answer.
func posted(c *client) error {
	c.SetDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // then reading fails
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 5\r\n\r\nhello")
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || string(body) != "hello" || res.Close {
		return fmt.Errorf("status %d, %q, Connection: close %t, %v", res.StatusCode, body, res.Close, err)
	}
	return nil
}

// onePostAfterAnother returns a function that sends a POST over the same connection of HTTP/2 each time.
func onePostAfterAnother(t *testing.T, frontend netip.AddrPort) func() error {
	conn := dial(t, frontend)
	transport := &http2.Transport{AllowHTTP: true}
	multiplexed, err := transport.NewClientConn(conn.Conn)
	if err != nil {
		t.Fatal(err)
	}
	return func() error {
		conn.SetDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // then reading fails
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+frontend.String()+"/", strings.NewReader("hello"))
		if err != nil {
			return err
		}
		res, err := multiplexed.RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || string(body) != "hello" {
			return fmt.Errorf("status %d, %q, %w", res.StatusCode, body, err)
		}
		return nil
	}
}

// TestSourceRangesChangeAtALivePort narrows and widens the source ranges of a live service. New connections follow at
// once; those that were there go on.
func TestSourceRangesChangeAtALivePort(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *live) []func() error{"tcp": streams, "http": exchanges} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLive(t, name)
			before := open(t, l)
			for _, step := range []struct {
				ranges []string
				admits bool
			}{{[]string{"192.0.2.0/24"}, false}, {[]string{"192.0.2.0/24", "127.0.0.0/8"}, true}, {[]string{"127.0.0.9/32"}, false}, {nil, true}} {
				svc := l.object("web", l.frontend, l.base)
				svc.Spec.LoadBalancerSourceRanges = step.ranges
				l.log.Put(svc)
				l.settle()
				if err := asks(t, l.frontend); (err == nil) != step.admits {
					t.Errorf("with the ranges %q a new connection ends with %v, want it admitted %v", step.ranges, err, step.admits)
				}
				for i, goesOn := range before {
					if err := goesOn(); err != nil {
						t.Fatalf("with the ranges %q: connection %d: %v", step.ranges, i, err)
					}
				}
			}
		})
	}
}

// asks asks for a line over a new connection. A client that is refused may see that while it connects.
func asks(t *testing.T, frontend netip.AddrPort) error {
	conn, err := net.DialTimeout("tcp", frontend.String(), answerTimeout)
	if err != nil {
		return err
	}
	c := connection(t, conn)
	defer c.Close()
	_, err = c.ask("GET / HTTP/1.1\r\nHost: web\r\n\r")
	return err
}
