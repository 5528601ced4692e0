package edge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
)

// answerTimeout has room for retransmissions.
const answerTimeout = 20 * time.Second

// web serves HTTP on the hub. Its answers are the client's address as the edge tells it, and the address
// of the edge.
func (w *world) web(t *testing.T) int32 {
	t.Helper()
	lis, port := w.listen(t)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		edge, _, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = fmt.Fprint(out, strings.Join(r.Header.Values("X-Forwarded-For"), ", "), " by ", edge)
	})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(lis) }()
	return port
}

// greeter serves connections with PROXY headers on the hub. It sends the client's address as the header
// tells it, and then each line back.
func (w *world) greeter(t *testing.T) int32 {
	t.Helper()
	lis, port := w.listen(t)
	go greet(&proxyproto.Listener{Listener: lis, ReadHeaderTimeout: answerTimeout})
	return port
}

func greet(lis *proxyproto.Listener) {
	for {
		conn, err := lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if h := conn.(*proxyproto.Conn).ProxyHeader(); h == nil || h.Version != 2 {
				return
			}
			client, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			if _, err := fmt.Fprintln(conn, client); err == nil {
				_, _ = io.Copy(conn, conn)
			}
		}()
	}
}

// ask asks once from the client, on a connection of its own, and returns the answer.
func (w *world) ask(at netip.AddrPort) (string, error) {
	client := labtest.HTTPIn(w.client)
	client.Timeout = answerTimeout
	answer, err := client.Get("http://" + at.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// reaches waits until the client is answered through the edge of a node, by its own address.
func (w *world) reaches(t *testing.T, at netip.AddrPort, node *labtest.Node) {
	t.Helper()
	want := fmt.Sprintf("%s by %s", clientAt, node.Addresses[0])
	kittest.Eventually(t, "an answer through "+node.Name, func() error {
		got, err := w.ask(at)
		if err == nil && got != want {
			err = fmt.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

// load is requests of several clients, each on a connection of its own.
type load struct {
	stop    chan struct{}
	running sync.WaitGroup
	asked   atomic.Int64

	mu     sync.Mutex
	failed []error
}

func (w *world) startLoad(t *testing.T, at netip.AddrPort) *load {
	t.Helper()
	l := &load{stop: make(chan struct{})}
	begun := time.Now()
	for range 4 {
		l.running.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				if _, err := w.ask(at); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Errorf("after %s: %w", time.Since(begun), err))
					l.mu.Unlock()
				}
				l.asked.Add(1)
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

// more waits for so many more requests.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	from := l.asked.Load()
	kittest.Eventually(t, fmt.Sprintf("%d requests", n), func() error {
		if got := l.asked.Load() - from; got < n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// end ends the load and returns the failures. A second end returns the same.
func (l *load) end() []error {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.running.Wait()
	return l.failed
}

// connection is an open connection of the client.
type connection struct {
	net.Conn
	lines *bufio.Reader
}

// dial opens a connection to the greeter, which must learn the client's address.
func (w *world) dial(t *testing.T, at netip.AddrPort) *connection {
	t.Helper()
	c := &connection{}
	kittest.Eventually(t, "a connection to "+at.String(), func() error {
		return w.client.Do(func() (err error) {
			c.Conn, err = net.DialTimeout("tcp", at.String(), answerTimeout)
			return err
		})
	})
	t.Cleanup(func() { _ = c.Close() })
	c.lines = bufio.NewReader(c)
	if got, err := c.line(); err != nil || got != clientAt {
		t.Fatalf("the backend was told %q, want %s, %v", got, clientAt, err)
	}
	return c
}

func (c *connection) line() (string, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return "", err
	}
	line, err := c.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// goesOn fails unless a line comes back.
func (c *connection) goesOn(t *testing.T, when string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, when); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if got, err := c.line(); err != nil || got != when {
		t.Fatalf("%s: %q came back, %v", when, got, err)
	}
}
