package web

import (
	"context"
	"errors"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/services/backends"
)

// fastExchange is a request on the fast path.
type fastExchange struct {
	c *fastConn
	s *scratch

	backend  *backends.Backend
	up       *upstream
	link     *link
	reusable bool // the link can be kept after the response

	head      bool // the method is HEAD
	retriable bool // the request can be sent again
	closes    bool // the client's connection ends after this response
	started   bool // the client has got a part of the response
	buffered  int  // bytes of the body that are behind the head in the scratch
	upload    *upload
	complete  bool    // the client has got the whole response of the backend
	failed    failure // otherwise; its response is sent unless a part of another one was

	begun, sent, answered time.Time
	record                Record
}

func newFastExchange(c *fastConn, s *scratch) *fastExchange {
	h := &s.req
	s.back, s.backSpace = s.backBuf[:0], s.backBuf[:]
	x := &fastExchange{c: c, s: s, begun: time.Now(), closes: h.closes}
	method := h.method.of(s.in)
	x.head = string(method) == "HEAD"
	x.retriable = !h.chunked && h.length <= 0 && isIdempotent(method)
	if c.set.config.Details {
		x.fillRecord()
	}
	return x
}

// isIdempotent reports whether a request may be sent again. net/http has the same list of methods.
func isIdempotent(method []byte) bool {
	switch string(method) {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// fillRecord copies texts of the request to the record, because the scratch is used again.
func (x *fastExchange) fillRecord() {
	h, in := &x.s.req, x.s.in
	for _, f := range h.fields {
		switch f.kind {
		case fieldHost:
			x.record.Host = string(f.value.of(in))
		case fieldUserAgent:
			x.record.UserAgent = string(f.value.of(in))
		}
	}
	x.record.Method, x.record.Proto = string(h.method.of(in)), "HTTP/1.1"
	x.record.URI = string(h.target.of(in))
	x.record.setConnection(&x.c.conn.info)
}

// serve sends the request to a backend and the response to the client.
func (x *fastExchange) serve() next {
	x.s.out = x.c.appendRequest(x.s.out[:0], x.s)
	if err := x.bufferBody(); err != nil {
		x.closes = true
		x.failed = failureOfClient(err)
		return x.fail()
	}
	if !x.send() {
		return x.fail()
	}
	x.startUpload()
	x.complete = x.receive()
	x.endUpload()
	if !x.complete {
		return x.fail()
	}
	return x.after()
}

// after returns the next step of the connection.
func (x *fastExchange) after() next {
	switch {
	case x.complete && x.c.hasExpired():
		return nextClose
	case x.closes:
		return nextLinger
	}
	if x.upload == nil {
		x.s.skip(x.s.req.size + x.buffered)
	}
	return nextRequest
}

// send sends the head and the buffered part of the body to a backend. It reports false if that failed,
// with x.failed set.
func (x *fastExchange) send() bool {
	for fresh := false; ; fresh = true {
		reused, ok := x.connect(fresh)
		if !ok {
			return false
		}
		x.sent = time.Now()
		err := x.deliver()
		if err == nil {
			return true
		}
		x.failed = x.failureOfBackend(err)
		if !reused || !x.retriable || isTimeout(err) {
			return false
		}
		x.drop(true)
	}
}

// connect chooses a backend and a connection to it. It takes an idle connection if there is one, unless fresh is
// set. ok is false if that failed, with x.failed set.
func (x *fastExchange) connect(fresh bool) (reused, ok bool) {
	var tried []*backends.Backend
	x.failed = failNoBackend
	for len(tried) < x.c.set.config.Dialer.MaxAttempts {
		if x.backend = x.c.pick(tried); x.backend == nil {
			return false, false
		}
		x.record.Backend = x.backend.Addr()
		x.up = x.c.set.upstreams.get(x.c.server.pool, x.backend.Addr())
		if !fresh && x.takeIdle() {
			return true, x.attach()
		}
		err := x.dial(append(tried, x.backend))
		if err == nil {
			return false, x.attach()
		}
		if err != errBackendRemoved {
			tried = append(tried, x.backend)
			x.failed = failureOf(err)
		}
		x.drop(true)
		if err == errAborted {
			x.failed = failStopped
			return false, false
		}
	}
	return false, false
}

// attach registers the connection to the backend, so that it ends if the request is aborted. It returns false if the
// request was aborted before.
func (x *fastExchange) attach() bool {
	if x.c.setLink(x.link) {
		return true
	}
	x.failed = failStopped
	return false
}

// deliver writes the request. If the request can be sent again, it also waits for the first bytes of the response.
func (x *fastExchange) deliver() error {
	if err := x.writeBack(x.s.out); err != nil && x.retriable {
		return err
	}
	// If a backend answers early and closes, writing fails, but there is a response to read.
	if !x.retriable {
		return nil
	}
	return x.readBack()
}

// takeIdle takes an idle connection to the backend.
func (x *fastExchange) takeIdle() bool {
	for {
		x.link = x.up.idle.take()
		if x.link == nil {
			return false
		}
		// A request that cannot be sent again needs a connection that the backend has not closed.
		if x.retriable || alive(x.link.raw) {
			return true
		}
		x.link.Close() //nolint:errcheck // the backend has closed it
	}
}

// The errors of a dial that was cancelled.
var (
	errAborted        = errors.New("the request was aborted")
	errBackendRemoved = errors.New("the backend leaves")
)

// dial connects to the backend, which is the last element of tried.
func (x *fastExchange) dial(tried []*backends.Backend) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !x.c.setDialing(cancel) {
		return errAborted
	}
	d := &x.c.set.config.Dialer
	conn, err := d.Dial(ctx, x.backend.Addr(), d.Timeout(x.c.server.pool, tried))
	if err == nil {
		x.link, err = newLink(conn)
	}
	aborted := !x.c.setDialing(nil)
	switch {
	case err == nil:
		return nil
	case aborted:
		return errAborted
	case ctx.Err() != nil:
		return errBackendRemoved
	}
	d.Fail(x.c.server.pool, x.backend, err)
	return &dialError{err}
}

// drop gives up the backend and its connection.
func (x *fastExchange) drop(failed bool) {
	x.c.setLink(nil)
	if x.link != nil {
		x.link.Close() //nolint:errcheck // it is not used again
		x.link = nil
	}
	if x.backend == nil {
		return
	}
	if failed {
		x.c.releaseFailed(x.backend)
	} else {
		x.c.server.pool.Release(x.backend, x.c, x.c.conn.info.client.Addr())
	}
	x.backend = nil
}

// fail answers with the failure, unless a part of the response was sent.
func (x *fastExchange) fail() next {
	if x.started || x.failed.status == 0 {
		return nextClose
	}
	x.closes = x.closes || x.failed.closes() || x.upload.pending() || x.c.server.fast.draining.Load()
	now := time.Now()
	x.s.out = x.failed.appendTo(x.s.out[:0], dateAt(now), x.head, x.closes)
	x.record.Status = x.failed.status
	if x.c.write(x.s.out) != nil {
		return nextClose
	}
	if !x.head {
		x.record.Sent = int64(len(x.failed.body()))
	}
	return x.after()
}

// ending returns the way in which the exchange has ended.
func (x *fastExchange) ending() ending.Ending {
	switch {
	case x.complete:
		return ending.Complete
	case x.c.wasAborted():
		return ending.Stopped
	}
	return x.failed.end
}

// finish keeps the connection to the backend, releases the backend and records the request.
func (x *fastExchange) finish() {
	now := time.Now()
	if x.reusable {
		x.c.setLink(nil) // from here on the sweeper does not see it
		if !x.link.expired {
			x.up.idle.put(x.link, now)
			x.link = nil
		}
	}
	x.drop(false)
	record := x.c.set.config.Record
	if record == nil {
		return
	}
	r := &x.record
	r.Ending = x.ending()
	r.Time, r.RequestTime, r.BackendTime, r.ResponseTime = x.begun, -1, -1, -1
	if !x.sent.IsZero() {
		r.RequestTime = x.sent.Sub(x.begun)
	}
	if !x.answered.IsZero() {
		r.BackendTime, r.ResponseTime = x.answered.Sub(x.sent), now.Sub(x.answered)
	}
	if x.upload != nil {
		r.Received = x.upload.total
	}
	record(r)
}
