package web

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// armEvery returns the shortest time between two moves of an idle deadline while bytes pass, because setting a timer
// for each read costs too much.
func armEvery(idle time.Duration) time.Duration { return min(time.Second, idle/4) }

// requestBody counts a request's body, and ends it if the client sends nothing for the idle time.
type requestBody struct {
	io.ReadCloser
	x       *exchange
	control *http.ResponseController
	armed   time.Time
	ended   atomic.Bool
}

// abandon limits the time for the unread part of the body. net/http reads some of it, so that the client can read
// the response.
func (b *requestBody) abandon() {
	if !b.ended.Load() {
		b.control.SetReadDeadline(time.Now().Add(lingerTime)) //nolint:errcheck // then reading fails
	}
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.armed) > armEvery(b.x.set.config.IdleTimeout) {
		b.armed = now
		b.control.SetReadDeadline(now.Add(b.x.set.config.IdleTimeout)) //nolint:errcheck // then reading fails
	}
	n, err := b.ReadCloser.Read(p)
	b.x.received.Add(int64(n))
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
		// net/http goes on reading while it serves the request, to learn about the end of the connection.
		b.control.SetReadDeadline(time.Time{}) //nolint:errcheck // then reading fails
	case isTimeout(err):
		b.x.bodyTimeout.Store(true)
	}
	return n, err
}

// responseWriter counts a response's body, and ends it if the client takes nothing for the idle time.
type responseWriter struct {
	http.ResponseWriter
	x       *exchange
	control *http.ResponseController
	body    *requestBody // nil: none
	http1   bool
	armed   time.Time
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	if status == http.StatusContinue {
		return // net/http sends a 100 itself when the body is read, which is after the backend's 100
	}
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.x.record.Status = status
		h := w.Header()
		if h["Content-Type"] == nil {
			h["Content-Type"] = nil // net/http would guess it
		}
		if w.http1 && !w.body.ended.Load() {
			h.Set("Connection", "close") // the response is early, and the body will not be read to its end
		}
	}
	w.arm()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.arm()
	n, err := w.ResponseWriter.Write(p)
	w.x.passed.Add(int64(n))
	return n, err
}

func (w *responseWriter) arm() {
	if now := time.Now(); now.Sub(w.armed) > armEvery(w.x.set.config.IdleTimeout) {
		w.armed = now
		w.control.SetWriteDeadline(now.Add(w.x.set.config.IdleTimeout)) //nolint:errcheck // then writing fails
	}
}

// Hijack implements http.Hijacker for the change of the protocol.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.x.guard.raw.Store(true)
	conn, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.x.record.Status = http.StatusSwitchingProtocols
	return &tunnel{Conn: conn, x: w.x}, buffered, nil
}

// tunnel counts the bytes of a client's connection after the change of the protocol. The connection to the
// backend has the idle timeout.
type tunnel struct {
	net.Conn
	x *exchange
}

// Read implements io.Reader.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.x.received.Add(int64(n))
	return n, err
}

// Write implements io.Writer.
func (t *tunnel) Write(p []byte) (int, error) {
	t.Conn.SetWriteDeadline(time.Now().Add(t.x.set.config.IdleTimeout)) //nolint:errcheck // then writing fails
	t.x.passed.Add(int64(len(p)))                                       // before the client has it, and may end the exchange
	n, err := t.Conn.Write(p)
	t.x.passed.Add(int64(n - len(p)))
	return n, err
}

// bufferPool is a pool of buffers of one size.
type bufferPool struct {
	size int
	pool sync.Pool
}

var copyBuffers = &bufferPool{size: 32 << 10}

// Get implements httputil.BufferPool.
func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, p.size)
}

// Put implements httputil.BufferPool.
func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }

// discard drops the errors of ReverseProxy, because records have them.
var discard = log.New(io.Discard, "", 0)
