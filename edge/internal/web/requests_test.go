package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"portolan.dev/edge/internal/listen"
	"portolan.dev/edge/internal/web"
)

// TestRequestsShareAConnection checks ordinary requests, pipelined and not, and their records.
func TestRequestsShareAConnection(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, echo))
		conn := connect(t, e.addr)
		for i := range 3 {
			conn.send("GET /%d HTTP/1.1\r\nHost: h\r\nUser-Agent: test\r\n\r\n", i)
			_, body := conn.response("GET")
			if want := fmt.Sprintf("GET /%d h 0", i); body != want {
				t.Fatalf("got %q, want %q", body, want)
			}
		}
		conn.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcPOST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET /c HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		for _, want := range []string{"POST /a h 3", "POST /b h 2", "GET /c h 0"} {
			if _, body := conn.response("GET"); body != want {
				t.Fatalf("got %q, want %q", body, want)
			}
		}
		conn.closed()
		r := e.record(t, 1)
		if r.Method != "GET" || r.Scheme != "http" || r.Host != "h" || r.URI != "/0" || r.Status != 200 || r.BackendStatus != 200 ||
			r.UserAgent != "test" || r.Sent != int64(len("GET /0 h 0")) || r.BackendTime < 0 || r.RequestTime < 0 || r.ResponseTime < 0 || !r.Backend.IsValid() {
			t.Errorf("record %+v", r)
		}
		if r := e.record(t, 5); r.Received != 2 || r.Method != "POST" {
			t.Errorf("record %+v", r)
		}
		for addr, n := range e.pool.Sessions() {
			if n != 0 {
				t.Errorf("%s has %d sessions after the requests", addr, n)
			}
		}
	})
}

// TestFieldsForTheBackend checks X-Forwarded fields and fields of one connection.
func TestFieldsForTheBackend(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		got := make(chan http.Header, 1)
		e := startEdge(t, c, nil, startHTTP(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header }))
		conn := connect(t, e.addr)
		conn.send("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\nX-Forwarded-Proto: https\r\n" +
			"X-Forwarded-Port: 1\r\nForwarded: for=192.0.2.3\r\nConnection: keep-alive\r\n\r\n")
		conn.response("GET")
		h := <-got
		_, port, _ := net.SplitHostPort(e.addr)
		for name, want := range map[string]string{
			"X-Forwarded-For": "192.0.2.1, 192.0.2.2, 127.0.0.1", "X-Forwarded-Proto": "http",
			"X-Forwarded-Port": port, "Forwarded": "for=192.0.2.3", "Connection": "",
		} {
			if v := strings.Join(h[name], "|"); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: x-mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\nProxy-Connection: x\r\n\r\n")
		conn.response("GET")
		h = <-got
		for _, name := range []string{"X-Mine", "Keep-Alive", "Te", "Proxy-Connection"} {
			if _, ok := h[name]; ok {
				t.Errorf("%s reaches the backend", name)
			}
		}
	})
}

// TestProxyHeader checks that the client's address is taken from a PROXY header, and that requests right behind the
// header are served.
func TestProxyHeader(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		from := listen.Settings{ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		e := startListening(t, c, from, startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.URL.Path, " ", r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Port"))
		}))
		conn := connect(t, e.addr)
		conn.send("PROXY TCP4 192.0.2.1 192.0.2.2 1000 8443\r\nGET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3")
		for i := range 3 {
			if _, body := conn.response("GET"); body != fmt.Sprintf("/%d 192.0.2.1 8443", i+1) {
				t.Fatalf("got %q", body)
			}
			if i == 1 {
				conn.send(" HTTP/1.1\r\nHost: h\r\n\r\n")
			}
		}
		if r := e.record(t, 3); r.Client != netip.MustParseAddrPort("192.0.2.1:1000") || r.URI != "/3" {
			t.Errorf("record %+v", r)
		}
	})
}

// TestRefusedRequests checks that requests which servers divide differently get a 400 and the end of
// the connection, also as a second request, and that no part of them reaches a backend.
func TestRefusedRequests(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\n"
	cases := map[string]string{
		"length and coding":       post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
		"coding and length":       post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nX",
		"two lengths":             post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"two equal lengths":       post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
		"list of lengths":         post + "Content-Length: 1, 1\r\n\r\na",
		"signed length":           post + "Content-Length: +1\r\n\r\na",
		"negative length":         post + "Content-Length: -1\r\n\r\n",
		"empty length":            post + "Content-Length:\r\n\r\n",
		"huge length":             post + "Content-Length: 99999999999999999999\r\n\r\n",
		"folded field":            post + "X: a\r\n b\r\n\r\n",
		"folded first field":      "GET / HTTP/1.1\r\n X: a\r\nHost: h\r\n\r\n",
		"bare LF":                 post + "X: a\nY: b\r\n\r\n",
		"bare LF at the end":      post + "X: a\r\n\n",
		"bare CR":                 post + "X: a\rY: b\r\n\r\n",
		"NUL":                     post + "X: a\x00b\r\n\r\n",
		"space before colon":      post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"space in name":           post + "X Y: chunked\r\n\r\n",
		"no colon":                post + "X\r\n\r\n",
		"empty name":              post + ": a\r\n\r\n",
		"other coding":            post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"identity":                post + "Transfer-Encoding: identity\r\n\r\n",
		"coding with a parameter": post + "Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
		"quoted coding":           post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
		"coding with VT":          post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"two codings":             post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"coding of HTTP/1.0":      "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"no host":                 "GET / HTTP/1.1\r\n\r\n",
		"two hosts":               "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"version":                 "GET / HTTP/3.0\r\nHost: h\r\n\r\n",
		"lower-case version":      "GET / http/1.1\r\nHost: h\r\n\r\n",
		"no version":              "GET /\r\n\r\n",
		"space in target":         "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
		"two spaces":              "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
		"tab":                     "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
		"chunk size":              post + "Transfer-Encoding: chunked\r\n\r\nx\r\n",
		"chunk size with 0x":      post + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
		"signed chunk size":       post + "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
		"huge chunk size":         post + "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n",
		"chunk without CR":        post + "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
		"chunk data without CRLF": post + "Transfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n",
		"LF in an extension":      post + "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n",
		"CR in an extension":      post + "Transfer-Encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n",
		"long extension":          post + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 300) + "\r\na\r\n0\r\n\r\n",
		"many extensions":         post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\na\r\n", 100) + "0\r\n\r\n",
		"folded trailer":          post + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n",
	}
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, echo))
		for name, request := range cases {
			t.Run(name, func(t *testing.T) {
				conn := connect(t, e.addr)
				conn.send("%s", request)
				res, body := conn.response("GET")
				wantStatus(t, res, body, 400, "client: ")
				conn.closed()

				conn = connect(t, e.addr)
				conn.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n%s", request)
				if _, body := conn.response("GET"); body != "GET /1 h 0" {
					t.Fatalf("first request: %q", body)
				}
				res, body = conn.response("GET")
				wantStatus(t, res, body, 400, "client: ")
				conn.closed()
			})
		}
	})
}

// TestLargeHeads checks the limits of the size and the number of fields.
func TestLargeHeads(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, echo))
		conn := connect(t, e.addr)
		conn.send("GET / HTTP/1.1\r\nHost: h\r\nX: %s\r\n\r\n", strings.Repeat("a", 40<<10))
		if _, body := conn.response("GET"); body != "GET / h 0" {
			t.Fatalf("40 KiB: %q", body)
		}
		for _, fields := range []string{"X: " + strings.Repeat("a", 80<<10) + "\r\n", strings.Repeat("X: a\r\n", 200)} {
			conn := connect(t, e.addr)
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields)
			res, body := conn.response("GET")
			wantStatus(t, res, body, 431, "client: ")
		}
	})
}

// TestLargeResponseHeads checks the limit of the size of a response's head.
func TestLargeResponseHeads(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			size := 0
			fmt.Sscanf(r.URL.Path, "/%d", &size)
			w.Header().Set("X", strings.Repeat("a", size))
			io.WriteString(w, strings.Repeat("b", 20000))
		}))
		conn := connect(t, e.addr)
		for _, size := range []int{15 << 10, 40 << 10, 10, 60 << 10} {
			conn.send("GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", size)
			if res, body := conn.response("GET"); len(res.Header.Get("X")) != size || len(body) != 20000 {
				t.Fatalf("%d: %d %q", size, res.StatusCode, body)
			}
		}
		conn.send("GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", 80<<10)
		res, body := conn.response("GET")
		wantStatus(t, res, body, 502, "backend: its response is invalid")
	})
}

// TestUnusualRequests checks requests that both paths serve by the reference.
func TestUnusualRequests(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, echo))
		for request, want := range map[string]string{
			"GET http://other/x?y HTTP/1.1\r\nHost: h\r\n\r\n":                                "GET /x?y other 0",
			"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n":                                           "",
			"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n":                                            "client: the request line is invalid\n",
			"GET //x/../y HTTP/1.1\r\nHost: h\r\n\r\n":                                        "GET //x/../y h 0",
			"GET /a;b?c;d&e=%2f HTTP/1.1\r\nHost: h\r\n\r\n":                                  "GET /a;b?c;d&e=%2f h 0",
			"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n":                                           "GET / h 0",
			"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n":                                       "edge: the method CONNECT is not supported\n",
			"GET / HTTP/1.0\r\nHost: h\r\n\r\n":                                               "GET / h 0",
			"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n": "",
		} {
			conn := connect(t, e.addr)
			conn.send("%s", request)
			if strings.Contains(request, "Expect") {
				if head := readHead(conn.r); !strings.HasPrefix(head, "HTTP/1.1 100 ") {
					t.Fatalf("no 100: %q", head)
				}
				conn.send("a")
				want = "POST / h 1"
			}
			if _, body := conn.response("GET"); body != want {
				t.Errorf("%q: got %q, want %q", request, body, want)
			}
		}
	})
}

// TestTrailers checks announced trailers in both directions.
func TestTrailers(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "B")
			io.Copy(w, r.Body)
			w.Header().Set("B", r.Trailer.Get("A"))
		}))
		conn := connect(t, e.addr)
		conn.send("POST / HTTP/1.1\r\nHost: h\r\nTrailer: A\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: x\r\n\r\n")
		res, body := conn.response("POST")
		if body != "a" || res.Trailer.Get("B") != "x" {
			t.Fatalf("got %q %v", body, res.Trailer)
		}
		conn.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
		res, body = conn.response("POST")
		if body != "a" || res.Trailer.Get("B") != "" {
			t.Fatalf("got %q %v, want no trailer that was not announced", body, res.Trailer)
		}
		if res, _ := conn.response("GET"); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	})
}

// TestUpgrade checks a change of the protocol, and that a refused one leaves the connection usable.
func TestUpgrade(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startRaw(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			for {
				head := readHead(r)
				switch {
				case strings.Contains(head, "Upgrade: echo"):
					io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
					io.Copy(conn, r)
					return
				case head == "":
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}))
		conn := connect(t, e.addr)
		// Not granted; the next request follows at once.
		conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
		for range 2 {
			if _, body := conn.response("GET"); body != "ok" {
				t.Fatalf("got %q", body)
			}
		}
		conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if res, _ := http.ReadResponse(conn.r, nil); res.StatusCode != 101 {
			t.Fatal(res.Status)
		}
		conn.send("no\nHTTP\x00")
		got := make([]byte, 8)
		if _, err := io.ReadFull(conn.r, got); err != nil || string(got) != "no\nHTTP\x00" {
			t.Fatalf("got %q, %v", got, err)
		}
		conn.Close()
		if r := e.record(t, 3); r.Status != 101 || r.Received != 8 || r.Sent != 8 {
			t.Errorf("record %+v", r)
		}
	})
}
