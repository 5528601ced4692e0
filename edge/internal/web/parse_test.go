package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// noise has bytes that parsers treat in different ways.
var noise = []string{"\r\n", "\n", "\r", " ", "\t", ":", ";", ",", "\x00", "\x0b", "\x7f", "a", "0", "5", "chunked", "HTTP/1.1", "Content-Length: 3\r\n",
	"Transfer-Encoding: chunked\r\n", "Host: h\r\n", "\r\n\r\n", "GET / ", "0\r\n\r\n", "3\r\nabc\r\n", "-", "+", "\"", "\xff"}

// drawDamaged draws a text that is damaged at a few places, or not at all.
func drawDamaged(t *rapid.T, texts []string) []byte {
	b := []byte(rapid.SampledFrom(texts).Draw(t, "text"))
	for range rapid.IntRange(0, 3).Draw(t, "damages") {
		at := rapid.IntRange(0, len(b)).Draw(t, "at")
		cut := rapid.IntRange(0, min(3, len(b)-at)).Draw(t, "cut")
		b = bytes.Join([][]byte{b[:at], []byte(rapid.SampledFrom(noise).Draw(t, "noise")), b[at+cut:]}, nil)
	}
	return b
}

var someHeads = []string{
	"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /a?b HTTP/1.0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX: a\r\n\r\nabc",
	"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: h\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"\r\nPUT / HTTP/1.1\r\nHost: h\r\nX: \t a \t\r\nY:\r\n\r\n",
}

// TestHeadAgrees checks damaged requests.
func TestHeadAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkHead(t, drawDamaged(t, someHeads)) })
}

// FuzzHead checks requests of any bytes.
func FuzzHead(f *testing.F) {
	for _, text := range someHeads {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkHead(t, b) })
}

// checkHead checks that a request which the parser accepts means the same to net/http, and that the
// parser does not depend on how the bytes arrive.
func checkHead(t rapid.TB, b []byte) {
	var h head
	h.reset(false)
	complete, err := h.parse(b)
	checkPieces(t, b, complete, err, h.size)
	if !complete || err != nil {
		return
	}
	request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[h.method.from:])))
	g := &guard{head: h, in: b}
	if err != nil {
		if g.checkForServer() == nil {
			t.Fatalf("net/http refuses %q: %v", b, err)
		}
		return
	}
	length := max(h.length, 0)
	if h.chunked {
		length = -1
	}
	if request.Method != string(h.method.of(b)) || request.RequestURI != string(h.target.of(b)) || request.ContentLength != length ||
		request.ProtoMinor != int(h.minor) {
		t.Fatalf("%q: net/http reads %s %s, length %d", b, request.Method, request.RequestURI, request.ContentLength)
	}
	for _, f := range h.fields {
		name, value := http.CanonicalHeaderKey(string(f.name.of(b))), string(f.value.of(b))
		if f.kind != fieldHost && f.kind != fieldTransferEncoding && f.kind != fieldTrailer && !strings.Contains(fmt.Sprintf("%q", request.Header[name]), fmt.Sprintf("%q", value)) {
			t.Fatalf("%q: field %s is %q, net/http reads %q", b, name, value, request.Header[name])
		}
	}
}

// checkPieces checks that a head is parsed alike if it arrives in pieces.
func checkPieces(t rapid.TB, b []byte, complete bool, err error, size int) {
	var h head
	h.reset(false)
	for n := 1; n <= len(b); n++ {
		c, e := h.parse(b[:n])
		if e != nil || c {
			if c != complete || e != err || h.size != size {
				t.Fatalf("%q: whole: %t %v %d, in pieces: %t %v %d", b, complete, err, size, c, e, h.size)
			}
			return
		}
	}
	if complete || err != nil {
		t.Fatalf("%q: whole: %t %v, in pieces it is not complete", b, complete, err)
	}
}

var someChunks = []string{
	"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "3;a=b\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n", "1\r\na\r\n0\r\nT: x\r\nU: y\r\n\r\n",
}

// TestChunksAgree checks damaged bodies.
func TestChunksAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkChunks(t, drawDamaged(t, someChunks)) })
}

// FuzzChunks checks bodies of any bytes.
func FuzzChunks(f *testing.F) {
	for _, text := range someChunks {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkChunks(t, b) })
}

// checkChunks checks that a body which the reader accepts means the same to net/http, and that the
// reader does not depend on how the bytes arrive.
func checkChunks(t rapid.TB, b []byte) {
	var whole, pieces chunkReader
	n, err := whole.next(b)
	m := 0
	for m < len(b) && !pieces.done() {
		if k, e := pieces.next(b[m : m+1]); e != nil || k == 0 {
			if e != err {
				t.Fatalf("%q: whole: %v, in pieces: %v", b, err, e)
			}
			break
		}
		m++
	}
	if n != m || whole.done() != pieces.done() {
		t.Fatalf("%q: whole: %d %t, in pieces: %d %t", b, n, whole.done(), m, pieces.done())
	}
	if !whole.done() {
		return
	}
	const next = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
	stream := bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + string(b[:n]) + next))
	first, err := http.ReadRequest(stream)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(first.Body)
	if err != nil || int64(len(body)) != whole.body {
		t.Fatalf("%q: net/http reads %q, %v", b[:n], body, err)
	}
	if second, err := http.ReadRequest(stream); err != nil || second.RequestURI != "/next" {
		t.Fatalf("%q: net/http finds another end: %v", b[:n], err)
	}
}

// TestUploadTake checks that a chunked body in pieces of any size is passed on without its trailers.
func TestUploadTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")
		var body bytes.Buffer
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			fmt.Fprintf(&body, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		want := body.String() + "0\r\n\r\n"
		body.WriteString("0\r\n" + rapid.SampledFrom([]string{"", "T: x\r\n", "T: x\r\nU: y\r\n"}).Draw(t, "trailers") + "\r\nnext")
		u := newUpload(&head{chunked: true})
		var out []byte
		left := body.Bytes()
		for !u.complete() {
			n := rapid.IntRange(1, len(left)).Draw(t, "piece")
			var used int
			var err error
			if out, used, err = u.take(out, left[:n]); err != nil || used == 0 {
				t.Fatal(used, err)
			}
			left = left[used:]
		}
		if string(out) != want || string(left) != "next" || u.total != int64(len(data)) {
			t.Fatalf("sent %q, want %q; left %q; %d bytes", out, want, left, u.total)
		}
	})
}
