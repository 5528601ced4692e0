package probe

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"portolan.dev/services/spec"
)

// FuzzHTTPAnswer checks a program that answers every request with the same bytes. The check
// succeeds exactly if net/http reads a status from 200 to 399, apart from redirects, which lead to
// the same answer. The reason of a failure is short, and valid UTF-8 in a condition.
func FuzzHTTPAnswer(f *testing.F) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 503 Busy\r\n\r\nlater", "HTTP/1.1 500 \xff\xfe\r\n\r\n\xff\xfe", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
		"HTTP/1.1 301 Moved\r\nLocation: http://other.example/\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "", "\x00", "HTTP/1.1 099 x\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 500 " + strings.Repeat("long ", 1000) + "\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: :" + strings.Repeat("x", 4000) + "\r\n\r\n",
		"HTTP/1.1 500 x\r\n\r\n" + strings.Repeat("ü", 200),
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		check := HTTP(Get{URL: "http://127.0.0.1:" + serveBytes(t, answer) + "/"})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := check(ctx)
		if err != nil {
			if text := err.Error(); len(text) > maxReason || !utf8.ValidString(spec.ShortenMessage(text)) {
				t.Fatalf("a reason of %d bytes: %.300q", len(text), text)
			}
		}
		res, readErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
		if readErr != nil {
			if err == nil {
				t.Fatalf("%q is taken for an answer: %v", answer, readErr)
			}
			return
		}
		if res.StatusCode < 200 || res.Header.Get("Location") != "" {
			return
		}
		if ok := res.StatusCode < 400; ok != (err == nil) {
			t.Fatalf("%q: status %d, and %v", answer, res.StatusCode, err)
		}
	})
}

// serveBytes serves the answer to every connection until the test ends. It returns the port.
func serveBytes(t *testing.T, answer []byte) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = conn.Write(answer)
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
