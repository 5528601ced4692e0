package web_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"portolan.dev/edge/internal/web"
)

// TestLargeBodies checks large bodies in both directions, by length and in chunks, while the response
// comes during the request.
func TestLargeBodies(t *testing.T) {
	data := make([]byte, 5<<20)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(data); i++ {
		data[i] = byte(r.Uint32())
	}
	want := sha256.Sum256(data)
	test := func(t *testing.T, c web.Config, scheme string) {
		var certs *tls.Config
		if scheme == "https" {
			certs = certificates(t)
		}
		h := httpClient(t, func(p *http.Protocols) { p.SetHTTP1(true) })
		e := startEdge(t, c, certs, startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			if r.ContentLength > 0 {
				w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
			}
			io.Copy(w, r.Body)
		}))
		for _, chunked := range []bool{false, true} {
			for range 2 { // the second one on the same connection
				var body io.Reader = bytes.NewReader(data)
				if chunked {
					body = io.MultiReader(body)
				}
				res, err := h.Post(scheme+"://"+e.addr, "", body)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || sha256.Sum256(got) != want {
					t.Fatalf("chunked %t: %d bytes, %v", chunked, len(got), err)
				}
			}
		}
		for i := range 4 {
			if r := e.record(t, i+1); r.Received != int64(len(data)) || r.Sent != int64(len(data)) {
				t.Errorf("record %d: received %d, sent %d", i, r.Received, r.Sent)
			}
		}
	}
	both(t, func(t *testing.T, c web.Config) {
		test(t, c, "http")
		test(t, c, "https")
	})
}

// TestSeveralReads checks a request in small pieces: every boundary between reads.
func TestSeveralReads(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		e := startEdge(t, c, nil, startHTTP(t, echo))
		const requests = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n10\r\n" +
			"0123456789abcdef\r\n0\r\nT: x\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabcdGET /c HTTP/1.1\r\nHost: h\r\n\r\n"
		for cut := 1; cut < len(requests); cut += 3 {
			conn := connect(t, e.addr)
			conn.send("%s", requests[:cut])
			conn.send("%s", requests[cut:])
			for _, want := range []string{"POST /a h 18", "POST /b h 4", "GET /c h 0"} {
				if _, body := conn.response("POST"); body != want {
					t.Fatalf("cut at %d: got %q, want %q", cut, body, want)
				}
			}
		}
		conn := connect(t, e.addr)
		for _, b := range []byte(requests) {
			conn.send("%s", string(b))
		}
		for _, want := range []string{"POST /a h 18", "POST /b h 4", "GET /c h 0"} {
			if _, body := conn.response("POST"); body != want {
				t.Fatalf("got %q, want %q", body, want)
			}
		}
	})
}

// TestManyChunks checks a response of many chunks with the reading of the next request behind it.
func TestManyChunks(t *testing.T) {
	both(t, func(t *testing.T, c web.Config) {
		part := strings.Repeat("x", 1000)
		e := startEdge(t, c, nil, startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			for range 500 {
				io.WriteString(w, part)
				http.NewResponseController(w).Flush()
			}
		}))
		conn := connect(t, e.addr)
		for range 2 {
			conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			if _, body := conn.response("GET"); len(body) != 500*len(part) {
				t.Fatalf("%d bytes", len(body))
			}
		}
	})
}
