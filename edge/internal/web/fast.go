package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/services/backends"
)

// The states of a connection on the fast path.
const (
	fastIdle int32 = iota // waits for a request
	fastBusy
	fastClosed // by shutdown, while it was idle
)

// fastConn is a client's connection on the fast path. It is the session of the pool for its current request.
type fastConn struct {
	g         *generation
	conn      *clientConn
	reader    *reader // nil: there is none for this connection
	forwarded []byte  // the fields about the client that are the same for all requests
	client    []byte  // the client's address

	state    atomic.Int32
	requests int
	reading  deadline
	writing  deadline

	mu      sync.Mutex
	dialing context.CancelFunc // cancels the current dial; nil: none
	link    *link              // to the backend of the current request; nil: none
	aborted bool
}

func newFastConn(g *generation, conn *clientConn) *fastConn {
	c := &fastConn{g: g, conn: conn}
	c.state.Store(fastBusy) // not idle, because the client has perhaps sent its first request
	if conn.tcp != nil {
		c.reader = newReader(conn.tcp)
	}
	c.client = []byte(conn.info.client.Addr().String())
	c.forwarded = []byte("X-Forwarded-Proto: " + conn.info.scheme() +
		"\r\nX-Forwarded-Port: " + portString(conn.info.local.Port()) + "\r\n\r\n")
	return c
}

// next is the next step of a connection after a request.
type next int

const (
	nextRequest next = iota
	nextClose        // the connection ends
	nextLinger       // the connection ends once the client has the response
	nextRefer        // the reference serves the connection from here on
)

// run serves the connection, from which read has been read, until it ends or the reference takes it
// over.
func (c *fastConn) run(read []byte) {
	defer c.g.fast.remove(c)
	for {
		s, err := c.await(read)
		read = nil
		if err != nil || !c.begin() {
			if s != nil {
				s.put()
			}
			c.conn.Close() //nolint:errcheck // nothing is under way
			return
		}
		then := c.serveAll(s)
		switch then {
		case nextRefer:
			c.hand(s)
			return
		case nextLinger:
			linger(c.conn, s.inBuf[:])
		}
		s.put()
		if then != nextRequest {
			c.conn.Close() //nolint:errcheck // all was written, or the client is gone
			return
		}
		c.state.Store(fastIdle)
		if c.g.fast.draining.Load() {
			c.conn.Close() //nolint:errcheck // nothing is under way
			return
		}
	}
}

// begin reports whether a request may be served. It may not if shutdown has closed the idle connection.
func (c *fastConn) begin() bool {
	return c.state.CompareAndSwap(fastIdle, fastBusy) || c.state.Load() == fastBusy
}

// await waits for the first bytes of a request, unless they have been read.
func (c *fastConn) await(read []byte) (*scratch, error) {
	if len(read) > 0 {
		s := getScratch()
		s.in = append(s.in, read...)
		return s, nil
	}
	idle := c.g.config.IdleTimeout
	if c.requests == 0 {
		idle = c.g.config.HeaderTimeout
	}
	c.armRead(time.Now(), idle)
	if c.reader != nil {
		return c.reader.await()
	}
	var first [1]byte
	if _, err := io.ReadFull(c.conn, first[:]); err != nil {
		return nil, err
	}
	s := getScratch()
	s.in = append(s.in, first[0])
	return s, nil
}

// hand gives the connection, with the bytes in s, to the reference.
func (c *fastConn) hand(s *scratch) {
	defer s.put()
	if c.conn.SetDeadline(time.Time{}) != nil || !c.g.refer(c.conn, s.in) {
		c.conn.Close() //nolint:errcheck // the client or the port is gone
	}
}

// serveAll serves requests until no byte of another request is buffered.
func (c *fastConn) serveAll(s *scratch) next {
	for {
		if then := c.serveOne(s); then != nextRequest || len(s.in) == 0 {
			return then
		}
		if c.g.fast.draining.Load() {
			return nextClose
		}
	}
}

// serveOne serves one request.
func (c *fastConn) serveOne(s *scratch) next {
	if err := c.readHead(s); err != nil {
		var r *refusal
		switch {
		case !errors.As(err, &r):
			return nextClose
		case r == errHeadTooLarge, c.requests == 0 && bytes.HasPrefix(s.in, []byte(prefaceLine)):
			return nextRefer // larger heads, and HTTP/2
		}
		return c.refuse(s, r)
	}
	if !ordinary(s) {
		return nextRefer
	}
	c.requests++
	x := newFastExchange(c, s)
	defer x.finish()
	return x.serve()
}

// readHead reads a request's head.
func (c *fastConn) readHead(s *scratch) error {
	s.req.reset(false)
	until := deadline{}
	for {
		complete, err := s.req.parse(s.in)
		if complete || err != nil {
			return err
		}
		if len(s.in) == len(s.inBuf) {
			return errHeadTooLarge
		}
		if until.at.IsZero() {
			until.at = time.Now().Add(c.g.config.HeaderTimeout)
			c.reading = until
			c.conn.SetReadDeadline(until.at) //nolint:errcheck // then reading fails
		}
		n, err := c.conn.Read(s.inBuf[len(s.in):])
		s.in = s.inBuf[:len(s.in)+n]
		if n == 0 && err != nil {
			return err
		}
	}
}

// ordinary reports whether the fast path can serve a request.
func ordinary(s *scratch) bool {
	h := &s.req
	return h.minor == 1 && !h.unusual && isPlainTarget(h.target.of(s.in)) && !equalFold(h.method.of(s.in), "connect")
}

// refuse answers a request that is not valid. The connection ends after the answer.
func (c *fastConn) refuse(s *scratch, r *refusal) next {
	now := time.Now()
	f := failureOfRefusal(r)
	s.out = f.appendTo(s.out[:0], dateAt(now), false, true)
	then := nextLinger
	if c.write(now, s.out) != nil {
		then = nextClose
	}
	if c.g.config.Record != nil {
		record := Record{Time: now, RequestTime: -1, BackendTime: -1, ResponseTime: -1, Status: f.status, Sent: int64(len(f.body()))}
		record.setConnection(&c.conn.info)
		c.g.config.Record(&record)
	}
	return then
}

func (c *fastConn) armRead(now time.Time, after time.Duration) {
	if at, ok := c.reading.set(now, after); ok {
		c.conn.SetReadDeadline(at) //nolint:errcheck // then reading fails
	}
}

func (c *fastConn) write(now time.Time, b []byte) error {
	if at, ok := c.writing.set(now, c.g.config.IdleTimeout); ok {
		c.conn.SetWriteDeadline(at) //nolint:errcheck // then writing fails
	}
	_, err := c.conn.Write(b)
	return err
}

// closeIfIdle closes the connection if it waits for a request.
func (c *fastConn) closeIfIdle() {
	if c.state.CompareAndSwap(fastIdle, fastClosed) {
		c.conn.Close() //nolint:errcheck // nothing is under way
	}
}

// setLink sets the connection to the backend. It reports false if the request was aborted.
func (c *fastConn) setLink(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	return !c.aborted
}

// Abort implements backends.Session. It resets both sides, because a close of TLS could block.
func (c *fastConn) Abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = true
	if c.dialing != nil {
		c.dialing()
	}
	backends.Reset(c.conn.accepted.Raw)
	if c.link != nil {
		backends.Reset(c.link.TCPConn)
	}
}

// BackendRemoved implements backends.Session. It cancels a dial, so that another backend is tried. A
// request that was sent cannot continue elsewhere.
func (c *fastConn) BackendRemoved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialing != nil {
		c.dialing()
	}
}

// setDialing sets the function that cancels the current dial. It reports false if the request was
// aborted.
func (c *fastConn) setDialing(cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing = cancel
	return !c.aborted
}

// pick chooses a backend for the current request.
func (c *fastConn) pick(tried []*backends.Backend) *backends.Backend {
	return c.g.pool.Pick(c.conn.info.client, c.conn.info.local, tried, c)
}

// releaseFailed releases a backend without renewing the client's affinity.
func (c *fastConn) releaseFailed(b *backends.Backend) { c.g.pool.Release(b, c, netip.Addr{}) }
