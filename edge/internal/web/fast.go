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

// fastConn is a client's connection on the fast path. It is the session of the pool for its current request.
type fastConn struct {
	server    *Server
	set       *settings // of the current request, or of the last one
	conn      *clientConn
	reader    *reader // nil: there is none for this connection
	forwarded []byte  // the fields about the client that are the same for all requests
	client    []byte  // the client's address

	requests int
	reading  deadline    // while the connection waits for a request, mu guards it
	giving   atomic.Bool // the client is to take bytes
	splicing atomic.Bool // the kernel moves a part of a response

	mu      sync.Mutex
	waiting bool               // for a request
	dialing context.CancelFunc // cancels the current dial; nil: none
	link    *link              // to the backend of the current request; nil: none
	upload  *upload            // the rest of the current request's body; nil: none
	aborted bool
	// expired reports whether the sweeper has set a deadline of the client's connection, which no other request may get.
	expired  bool
	progress progress // the sweeper alone uses it
}

func newFastConn(set *settings, conn *clientConn) *fastConn {
	c := &fastConn{server: set.server, set: set, conn: conn}
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
	defer c.server.fast.remove(c)
	for {
		s, err := c.await(read)
		read = nil
		if err != nil {
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
	}
}

// await waits for the first bytes of a request, unless they have been read. Once the server is shut down, it does not
// wait any more, but bytes that have arrived are served.
func (c *fastConn) await(read []byte) (*scratch, error) {
	if len(read) > 0 {
		s := getScratch()
		s.in = append(s.in, read...)
		return s, nil
	}
	c.wait()
	s, err := c.first()
	if c.waited() && isTimeout(err) && arrived(c.conn.accepted.Raw) {
		c.armRead(time.Now(), c.set.config.HeaderTimeout)
		s, err = c.first()
	}
	return s, err
}

// wait arms the deadline of the wait for a request.
func (c *fastConn) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = true
	c.set = c.server.settings.Load()
	c.armWait()
}

// armWait moves the deadline of a connection that waits for a request, as the settings and the state of the server say.
// The caller holds the lock.
func (c *fastConn) armWait() {
	now, set := time.Now(), c.server.settings.Load()
	switch {
	case c.requests == 0: // the client has perhaps sent its first request
		c.armRead(now, set.config.HeaderTimeout)
	case c.server.fast.draining.Load():
		c.reading = deadline{now}
		c.conn.SetReadDeadline(now) //nolint:errcheck // then reading fails
	default:
		c.armRead(now, set.config.IdleTimeout)
	}
}

// waited ends the wait for a request. It reports whether the server was shut down meanwhile.
func (c *fastConn) waited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	return c.server.fast.draining.Load()
}

// rearm applies changed settings to the connection, if it waits for a request.
func (c *fastConn) rearm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting {
		c.armWait()
	}
}

// first reads the first bytes of a request.
func (c *fastConn) first() (*scratch, error) {
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
	if c.conn.SetDeadline(time.Time{}) != nil || !c.server.refer(c.conn, s.in) {
		c.conn.Close() //nolint:errcheck // the client or the port is gone
	}
}

// serveAll serves requests until no byte of another request is buffered. It goes on when the server is shut down, because
// the client has sent them before it could know. The next response announces the end.
func (c *fastConn) serveAll(s *scratch) next {
	for {
		if then := c.serveOne(s); then != nextRequest || len(s.in) == 0 {
			return then
		}
	}
}

// serveOne serves one request.
func (c *fastConn) serveOne(s *scratch) next {
	c.set = c.server.settings.Load()
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
	if !ordinary(s) || c.set.takesReference() {
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
			until.at = time.Now().Add(c.set.config.HeaderTimeout)
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
	if c.write(s.out) != nil {
		then = nextClose
	}
	if c.set.config.Record != nil {
		record := Record{Time: now, RequestTime: -1, BackendTime: -1, ResponseTime: -1, Ending: f.end, Status: f.status, Sent: int64(len(f.body()))}
		record.setConnection(&c.conn.info)
		c.set.config.Record(&record)
	}
	return then
}

func (c *fastConn) armRead(now time.Time, after time.Duration) {
	if at, ok := c.reading.set(now, after); ok {
		c.conn.SetReadDeadline(at) //nolint:errcheck // then reading fails
	}
}

func (c *fastConn) write(b []byte) error {
	c.giving.Store(true)
	defer c.giving.Store(false)
	_, err := c.conn.Write(b)
	return err
}

// setLink sets the connection to the backend. It reports false if the request was aborted.
func (c *fastConn) setLink(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	return !c.aborted
}

// setUpload sets the upload of the current request, which the sweeper watches.
func (c *fastConn) setUpload(u *upload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.upload = u
}

// hasExpired reports whether the sweeper has set a deadline of the client's connection.
func (c *fastConn) hasExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expired
}

// wasAborted reports whether Abort was called.
func (c *fastConn) wasAborted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
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
	return c.server.pool.Pick(c.conn.info.client, c.conn.info.local, tried, c)
}

// releaseFailed releases a backend without renewing the client's affinity.
func (c *fastConn) releaseFailed(b *backends.Backend) { c.server.pool.Release(b, c, netip.Addr{}) }
