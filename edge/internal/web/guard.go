package web

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"sync/atomic"
)

// preface begins a connection of HTTP/2 with prior knowledge.
const (
	preface     = prefaceLine + "\r\nSM\r\n\r\n"
	prefaceLine = "PRI * HTTP/2.0\r\n"
)

// standIn is the request that net/http gets in place of a refused head. The handler answers it with the reason of
// the refusal.
const standIn = "GET / HTTP/1.1\r\nHost: refused\r\n\r\n"

// guardState is the kind of the next byte of a guarded connection.
type guardState uint8

const (
	guardHead guardState = iota
	guardLength
	guardChunked
	guardUpgrade // after a request to change the protocol, before its answer
	guardRaw     // not HTTP/1
	guardRefused
)

// guard is a client's connection from which net/http reads. It passes on a head once it is complete and
// valid, and bodies as far as their framing is valid.
//
// net/http reads from one goroutine at a time. Other goroutines use only the atomic fields.
type guard struct {
	*clientConn
	limit int

	state   guardState
	in      []byte // bytes that were read and not passed on
	out     int    // bytes of in that may be passed on
	ahead   int    // bytes of in that were passed on before the head was complete
	started bool
	scratch [512]byte

	head  head
	left  int64
	chunk chunkReader

	heads   int64 // number of complete heads, with a refused one
	upgrade bool  // the last head asks for a change of the protocol
	err     error // of the connection

	refusedHead atomic.Int64 // the number of the head that was refused; 0: none
	refused     atomic.Pointer[refusal]
	raw         atomic.Bool  // the protocol has changed
	notHTTP1    atomic.Bool  // the connection is no longer HTTP/1
	finished    atomic.Int64 // the number of the last request that was served without a change

	requests int64 // number of requests that the handler has begun
}

// newGuard returns a guard of a connection. read has the bytes that were read from it.
func newGuard(conn *clientConn, limit int, read []byte) *guard {
	g := &guard{clientConn: conn, limit: limit, in: bytes.Clone(read)}
	g.head.reset(false)
	return g
}

// Read implements net.Conn.
func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if g.out > 0 {
			n := copy(p, g.in[:g.out])
			g.consume(n)
			return n, nil
		}
		if n, err := g.advance(p); n > 0 || err != nil {
			return n, err
		}
	}
}

func (g *guard) consume(n int) {
	g.in = g.in[n:]
	g.out -= n
	if len(g.in) == 0 {
		g.in = nil
	}
}

// advance checks more bytes of in, or reads more bytes. It may read bytes into p directly.
func (g *guard) advance(p []byte) (int, error) {
	switch g.state {
	case guardHead:
		return 0, g.advanceHead()
	case guardLength:
		return g.advanceLength(p)
	case guardChunked:
		return 0, g.advanceChunked()
	case guardUpgrade:
		return g.advanceUpgrade(p)
	case guardRefused:
		return 0, io.EOF
	}
	if len(g.in) > 0 {
		g.out = len(g.in)
		return 0, nil
	}
	return g.clientConn.Read(p)
}

// fill reads more bytes to in.
func (g *guard) fill() error {
	n, err := g.clientConn.Read(g.scratch[:])
	g.in = append(g.in, g.scratch[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

func (g *guard) advanceHead() error {
	if !g.started && len(g.in) < len(preface) && bytes.HasPrefix([]byte(preface), g.in) {
		if err := g.fill(); err != nil {
			return err
		}
		return nil
	}
	if !g.started && bytes.HasPrefix(g.in, []byte(preface)) {
		g.state = guardRaw
		g.notHTTP1.Store(true)
		return nil
	}
	g.started = true
	complete, err := g.head.parse(g.in)
	if complete && err == nil {
		err = g.checkForServer()
	}
	switch {
	case err != nil:
		g.refuseHead(err)
	case complete && g.head.size > g.limit, !complete && len(g.in) > g.limit:
		g.refuseHead(errHeadTooLarge)
	case complete:
		g.accept()
	default:
		return g.fill()
	}
	return nil
}

// checkForServer returns an error for a head that is valid, but that net/http refuses. net/http closes
// the connection in a way that can lose its answer.
func (g *guard) checkForServer() error {
	h := &g.head
	for _, f := range h.fields {
		if f.kind == fieldHost && !all(f.value.of(g.in), classHost) {
			return errHost
		}
	}
	if equalFold(h.method.of(g.in), "connect") {
		return nil
	}
	if _, err := url.ParseRequestURI(string(h.target.of(g.in))); err != nil {
		return errRequestLine
	}
	return nil
}

// accept passes on a head, and prepares for its body.
func (g *guard) accept() {
	h := &g.head
	g.heads++
	from := max(g.ahead, h.method.from) // without an empty line before the request
	g.in, g.out, g.ahead = g.in[from:], h.size-from, 0
	g.upgrade = false
	for _, f := range h.fields {
		g.upgrade = g.upgrade || f.kind == fieldUpgrade
	}
	switch {
	case h.chunked:
		g.state, g.chunk = guardChunked, chunkReader{}
	case h.length > 0:
		g.state, g.left = guardLength, h.length
	default:
		g.endOfBody()
	}
	h.reset(false)
}

func (g *guard) endOfBody() {
	g.state = guardHead
	if g.upgrade {
		g.state = guardUpgrade
	}
}

func (g *guard) refuseHead(err error) {
	g.heads++
	var r *refusal
	errors.As(err, &r)
	g.refused.Store(r)
	g.refusedHead.Store(g.heads)
	g.state = guardRefused
	g.in, g.out = []byte(standIn)[min(g.ahead, 1):], len(standIn)-min(g.ahead, 1)
}

func (g *guard) advanceLength(p []byte) (int, error) {
	if g.left == 0 {
		g.endOfBody()
		return 0, nil
	}
	if len(g.in) > 0 {
		g.out = int(min(int64(len(g.in)), g.left))
		g.left -= int64(g.out)
		return 0, nil
	}
	n, err := g.clientConn.Read(p[:min(int64(len(p)), g.left)])
	g.left -= int64(n)
	return n, err
}

// invalidChunk ends a chunked body for net/http with an error.
const invalidChunk = "invalid\r\n"

func (g *guard) advanceChunked() error {
	if g.chunk.done() {
		g.endOfBody()
		return nil
	}
	if len(g.in) == 0 {
		return g.fill()
	}
	n, err := g.chunk.next(g.in)
	g.out = n
	if err != nil {
		var r *refusal
		errors.As(err, &r)
		g.refused.Store(r)
		g.state = guardRefused
		g.in = append(g.in[:n:n], invalidChunk...)
		g.out = len(g.in)
	}
	return nil
}

// advanceUpgrade passes on a byte that came before the answer to a request to change the protocol.
// net/http waits for one byte while it serves a request, to learn about the end of the connection. If
// the protocol stays, the byte is part of the next head.
func (g *guard) advanceUpgrade(p []byte) (int, error) {
	switch {
	case g.raw.Load():
		g.in, g.ahead = g.in[g.ahead:], 0
		g.state = guardRaw
		g.notHTTP1.Store(true)
		return 0, nil
	case g.finished.Load() >= g.heads:
		g.state = guardHead
		return 0, nil
	}
	if len(g.in) == g.ahead {
		if err := g.fill(); err != nil {
			return 0, err
		}
	}
	p[0] = g.in[g.ahead]
	g.ahead++
	return 1, nil
}

// Close implements net.Conn. A client of HTTP/1 that is still sending gets the last response before the end.
func (g *guard) Close() error {
	if g.notHTTP1.Load() {
		return g.clientConn.Close()
	}
	go func() {
		linger(g.clientConn, make([]byte, 4<<10))
		g.clientConn.Close() //nolint:errcheck // the answer was written
	}()
	return nil
}

// refusedRequest returns the reason why the next request of the handler was refused, or nil. The handler calls it
// once for each request.
func (g *guard) refusedRequest() *refusal {
	g.requests++
	if g.refusedHead.Load() != g.requests {
		return nil
	}
	return g.refused.Load()
}

// bodyRefused returns the reason why the body of the last request was refused, or nil.
func (g *guard) bodyRefused() *refusal {
	if g.refusedHead.Load() != 0 {
		return nil
	}
	return g.refused.Load()
}
