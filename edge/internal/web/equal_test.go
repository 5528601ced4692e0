package web_test

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"portolan.dev/edge/internal/web"
)

// recorder is a backend that notes requests and answers with a response that a test has chosen.
type recorder struct {
	mu       sync.Mutex
	response string
	seen     []string
}

func (r *recorder) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		r.mu.Lock()
		// A body of no bytes may have a length or none.
		if request.Header.Get("Content-Length") == "0" {
			request.Header.Del("Content-Length")
		}
		request.Header.Del("X-Forwarded-Port")
		r.seen = append(r.seen, fmt.Sprintf("%s %s %s\n%sbody %s %v\n%s", request.Method, request.RequestURI, request.Host,
			headerText(request.Header), bodyText(body), err != nil, headerText(request.Trailer)))
		response := r.response
		r.mu.Unlock()
		if err != nil {
			return
		}
		hints := len(response) - len(strings.TrimPrefix(strings.TrimPrefix(response, earlyHints), unaskedContinue))
		head, _, _ := strings.Cut(response[hints:], "\r\n\r\n")
		if request.Method == "HEAD" && response != "" {
			response = response[:hints] + head + "\r\n\r\n"
		}
		io.WriteString(conn, response)
		if response == "" || strings.Contains(head, "HTTP/1.0") || strings.Contains(head, "Connection: close") ||
			request.Method != "HEAD" && strings.HasPrefix(head, "HTTP/1.1 200") && !strings.Contains(head, "Content-Length") && !strings.Contains(head, "chunked") {
			return
		}
	}
}

func bodyText(b []byte) string {
	if len(b) < 100 {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("of %d bytes with the sum %x", len(b), sha256.Sum256(b))
}

const (
	earlyHints      = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
	unaskedContinue = "HTTP/1.1 100 Continue\r\n\r\n"
)

func headerText(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&b, "%s: %q\n", textproto.CanonicalMIMEHeaderKey(name), h[name])
	}
	return b.String()
}

// twin is one of the two edges that are compared.
type twin struct {
	*edge
	*recorder
}

func startTwin(t *testing.T, c web.Config) *twin {
	r := &recorder{}
	return &twin{startEdge(t, c, nil, startRaw(t, r.serve)), r}
}

// ask sends requests on a new connection. It returns the bytes for the client, and the requests that the backend
// sees.
func (w *twin) ask(requests, response string, methods []string) (got, seen string) {
	w.recorder.mu.Lock()
	w.recorder.response, w.recorder.seen = response, nil
	w.recorder.mu.Unlock()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		return err.Error(), ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(3 * time.Second))
	io.WriteString(conn, requests)
	r := bufio.NewReader(conn)
	var b strings.Builder
	for i := 0; i < len(methods); i++ {
		res, err := http.ReadResponse(r, &http.Request{Method: methods[i]})
		if err != nil {
			fmt.Fprintf(&b, "no response, timeout %t\n", errors.Is(err, os.ErrDeadlineExceeded))
			break
		}
		if res.StatusCode < 200 {
			i--
		}
		body, err := io.ReadAll(res.Body)
		res.Header.Del("Date")
		fmt.Fprintf(&b, "%d %v\n%sbody %s %v\n%s", res.StatusCode, res.TransferEncoding, headerText(res.Header), bodyText(body), err != nil, headerText(res.Trailer))
		if res.Close || err != nil {
			fmt.Fprintf(&b, "close\n")
			break
		}
	}
	w.recorder.mu.Lock()
	defer w.recorder.mu.Unlock()
	if response == "" { // sent again if an idle connection was used
		w.recorder.seen = slices.Compact(w.recorder.seen)
	}
	return b.String(), strings.Join(w.recorder.seen, "\n")
}

// The parts of requests and responses of TestPathsAreEqual.
var (
	someMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "X-A!"}
	someTargets = []string{"/", "/a/b?c=d", "/a;b?c;d", "/%41%2f", "/a%zz", "//a/b", "/a//b/../c", "/?", "/a?b?c", "/a#b", "/\"<>", "/{a}|b", "/\xc3\xa4",
		"http://other/a", "http://other", "*", "/+", "/a:b@c!$&'()*,=~", "/" + strings.Repeat("a", 3000), "a"}
	someFields = []string{"Host: h", "User-Agent: test", "Accept: */*", "accept-encoding: gzip", "Cookie: a=b; c=d", "Cookie: e", "X-Empty:", "X-Spaces:  \t a b \t",
		"x-LOWER: 1", "X-Forwarded-For: 192.0.2.1", "x-forwarded-for: 192.0.2.2, 192.0.2.3", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X-Forwarded-Host: a",
		"Forwarded: for=1", "Connection: keep-alive", "Connection: close", "Connection: x-lower", "Connection: Keep-Alive, X-Empty", "Connection: ,", "Keep-Alive: 5",
		"Proxy-Connection: keep-alive", "TE: trailers", "TE: gzip", "Trailer: T", "Upgrade: x", "Proxy-Authorization: a", "Proxy-Authenticate: a", "Via: 1.1 a",
		"Authorization: b", "Content-Type: text/plain", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "Range: bytes=1-", "X-Utf8: \xc3\xa4", "X-Long: " + strings.Repeat("a", 5000),
		// Fields that are refused.
		"X Y: a", "X-Folded: a\r\n b", "X-NUL: a\x00", "NoColon", "Content-Length: 0", "Transfer-Encoding: gzip", "X: a\nY: b"}
	someResponses = []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Type: text/html\r\nSet-Cookie: a\r\nset-cookie: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\nServer: s\r\n\r\n" + strings.Repeat("0123456789", 4000),
		"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("0123456789", 20000),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nuntil the end",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.0 200 OK\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: X-Private\r\nX-Private: 1\r\nX-Public: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: a\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 204 No Content\r\nX: a\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n",
		"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
		"HTTP/1.1 500 My Own Words\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n",
		unaskedContinue + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		earlyHints + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
		"SSH\r\n\r\n",
		"",
	}
)

// TestPathsAreEqual sends the same requests over both paths. It compares the requests that the backend sees, and the
// responses that the client gets.
func TestPathsAreEqual(t *testing.T) {
	fast, reference := startTwin(t, web.Config{}), startTwin(t, web.Config{ReferenceOnly: true})
	compare := func(t testingT, requests, response string, methods []string) {
		got, seen := fast.ask(requests, response, methods)
		want, wantSeen := reference.ask(requests, response, methods)
		if got != want || seen != wantSeen || strings.Contains(got, "timeout true") {
			t.Fatalf("requests %.600q\nresponse %.300q\nthe fast path answers\n%.2000s\nthe reference answers\n%.2000s\nthe fast path's backend sees\n%.2000s\nthe reference's backend sees\n%.2000s",
				requests, response, got, want, seen, wantSeen)
		}
	}
	for _, method := range someMethods {
		for _, response := range someResponses {
			compare(t, method+" / HTTP/1.1\r\nHost: h\r\n\r\n", response, []string{method})
		}
	}
	for _, target := range someTargets {
		compare(t, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n", someResponses[0], []string{"GET"})
	}
	for _, field := range someFields {
		compare(t, "GET / HTTP/1.1\r\nHost: h\r\n"+field+"\r\n\r\n", someResponses[0], []string{"GET"})
	}
	rapid.Check(t, func(t *rapid.T) {
		var requests strings.Builder
		var methods []string
		for range rapid.IntRange(1, 3).Draw(t, "requests") {
			methods = append(methods, drawRequest(t, &requests))
		}
		compare(t, requests.String(), rapid.SampledFrom(someResponses).Draw(t, "response"), methods)
	})
}

// testingT has the methods of *testing.T and *rapid.T that these tests use.
type testingT interface{ Fatalf(string, ...any) }

// drawRequest writes a request, which is valid in most cases, and returns its method.
func drawRequest(t *rapid.T, w io.Writer) string {
	method := rapid.SampledFrom(someMethods).Draw(t, "method")
	version := rapid.SampledFrom([]string{"1.1", "1.1", "1.1", "1.1", "1.0"}).Draw(t, "version")
	fmt.Fprintf(w, "%s %s HTTP/%s\r\nHost: h\r\n", method, rapid.SampledFrom(someTargets).Draw(t, "target"), version)
	for _, f := range rapid.SliceOfN(rapid.SampledFrom(someFields[1:]), 0, 5).Draw(t, "fields") {
		fmt.Fprintf(w, "%s\r\n", f)
	}
	body := rapid.SampledFrom([]string{"", "x", "hello", strings.Repeat("b", 20000), strings.Repeat("c", 80000)}).Draw(t, "body")
	switch rapid.IntRange(0, 2).Draw(t, "framing") {
	case 0:
		io.WriteString(w, "\r\n")
	case 1:
		fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(body), body)
	case 2:
		fmt.Fprintf(w, "Transfer-Encoding: chunked\r\n\r\n")
		for len(body) > 0 {
			n := min(len(body), rapid.IntRange(1, 70000).Draw(t, "chunk"))
			fmt.Fprintf(w, "%x%s\r\n%s\r\n", n, rapid.SampledFrom([]string{"", "", ";a=b"}).Draw(t, "extension"), body[:n])
			body = body[n:]
		}
		io.WriteString(w, "0\r\n"+rapid.SampledFrom([]string{"", "", "T: x\r\n"}).Draw(t, "trailer")+"\r\n")
	}
	return method
}
