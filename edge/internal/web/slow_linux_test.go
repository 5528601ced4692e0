package web_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The pace of the slow side of a transfer, for three times the idle time. Then the rest follows at once. It is fast enough
// that the kernel announces space in a receive buffer several times in the idle time.
const (
	slowIdle  = 2 * time.Second
	slowBytes = 1000
	slowEvery = 50 * time.Millisecond
	slowFor   = 120
	slowSize  = 256 << 10
)

// paced reads slowly at first.
type paced struct {
	io.Reader
	steps int
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.steps++; p.steps <= slowFor {
		<-time.After(slowEvery)
		b = b[:min(len(b), slowBytes)]
	}
	return p.Reader.Read(b)
}

// slowly writes a body, slowly at first, and flushes it.
func slowly(w io.Writer, body io.Reader) {
	flusher, _ := w.(http.Flusher)
	buf := make([]byte, 1<<16)
	for source := (&paced{Reader: body}); ; {
		n, err := source.Read(buf)
		w.Write(buf[:n])
		if flusher != nil {
			flusher.Flush()
		}
		if err != nil {
			return
		}
	}
}

// TestSlowTransfersGoOn lets bytes pass slowly, on each path and in both directions, because either side is slow. As long
// as they pass, the idle time does not end them.
func TestSlowTransfersGoOn(t *testing.T) {
	var all sync.WaitGroup // parallel tests would be only as many as processors
	defer all.Wait()
	for protocol, p := range paths {
		for name, transfer := range transfers(startSlow(t, p)) {
			c := slowClient(t, p.set)
			all.Go(func() {
				if err := transfer(t, c); err != nil {
					t.Errorf("%s, %s: %v", protocol, name, err)
				}
			})
		}
	}
}

// transfers returns all ways in which a side of a transfer is slow.
func transfers(url string) map[string]func(*testing.T, *http.Client) error {
	return map[string]func(*testing.T, *http.Client) error{
		"the backend sends slowly, length":  download(url+"/slow/length", false),
		"the backend sends slowly, chunked": download(url+"/slow/chunked", false),
		"the client reads slowly, length":   download(url+"/length", true),
		"the client reads slowly, chunked":  download(url+"/chunked", true),
		"the client sends slowly, length":   upload(url+"/", &paced{Reader: slowBody()}, slowSize),
		"the client sends slowly, chunked":  upload(url+"/", &paced{Reader: slowBody()}, -1),
		"the backend reads slowly, length":  upload(url+"/read", slowBody(), slowSize),
		"the backend reads slowly, chunked": upload(url+"/read", slowBody(), -1),
	}
}

func slowBody() io.Reader { return strings.NewReader(strings.Repeat("x", slowSize)) }

// startSlow starts an edge with a slow backend. It returns the URL of the edge.
func startSlow(t *testing.T, p path) string {
	t.Helper()
	lis, err := (&net.ListenConfig{Control: smallBuffer}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(serveSlowly), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go server.Serve(lis)
	t.Cleanup(func() { server.Close() })
	p.config.IdleTimeout = slowIdle
	return p.url(p.start(t, addrOf(lis.Addr())))
}

// serveSlowly sends a body, slowly if the path says so, or reads one.
func serveSlowly(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "length") {
		w.Header().Set("Content-Length", fmt.Sprint(slowSize))
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/slow"):
		slowly(w, slowBody())
	case strings.HasPrefix(r.URL.Path, "/read"):
		n, err := io.Copy(io.Discard, &paced{Reader: r.Body})
		fmt.Fprintf(w, "%d %v", n, err)
	case r.Method == http.MethodPost:
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v", n, err)
	default:
		io.Copy(w, slowBody())
	}
}

// smallBuffer lets a slow reader be felt by the other side soon. The segments are small as over a network: with the large
// ones of the loopback interface a small buffer has room for another segment seldom.
func smallBuffer(_, _ string, c syscall.RawConn) error {
	var buffer, segments error
	failed := c.Control(func(fd uintptr) {
		buffer = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10)
		segments = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536)
	})
	return errors.Join(failed, buffer, segments)
}

// slowClient returns a client with a small buffer, whose connections no other test uses.
func slowClient(t *testing.T, set func(*http.Protocols)) *http.Client {
	client := httpClient(t, set)
	client.Timeout = time.Minute
	client.Transport.(*http.Transport).DialContext = (&net.Dialer{Control: smallBuffer}).DialContext
	return client
}

// download asks for a page, and wants all of its body.
func download(url string, slow bool) func(*testing.T, *http.Client) error {
	return func(t *testing.T, c *http.Client) error {
		res, err := c.Get(url)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body := io.Reader(res.Body)
		if slow {
			body = &paced{Reader: body}
		}
		if n, err := io.Copy(io.Discard, body); err != nil || n != slowSize {
			return fmt.Errorf("%d bytes of %d, %w", n, slowSize, err)
		}
		return nil
	}
}

// upload sends a body. The backend answers with the number of bytes that it has got.
func upload(url string, body io.Reader, length int64) func(*testing.T, *http.Client) error {
	return func(t *testing.T, c *http.Client) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		if err != nil {
			return err
		}
		req.ContentLength = length
		res, err := c.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if want := fmt.Sprintf("%d <nil>", slowSize); err != nil || res.StatusCode != http.StatusOK || string(text) != want {
			return fmt.Errorf("status %d, %q, %w", res.StatusCode, text, err)
		}
		return nil
	}
}
