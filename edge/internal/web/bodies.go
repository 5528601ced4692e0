package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestBody counts a request's body, and tells the sweeper when it waits for the client.
type requestBody struct {
	io.ReadCloser
	x       *exchange
	control *http.ResponseController
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
	b.x.reading.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.x.reading.Store(false)
	b.x.received.Add(int64(n))
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	case errors.Is(err, http.ErrBodyReadAfterClose): // the backend has answered early
	default:
		b.x.failedByClient(err)
	}
	return n, err
}

// failedByClient records an error of reading the request's body.
func (x *exchange) failedByClient(err error) {
	if refused := x.guard.bodyRefused(); refused != nil {
		err = refused
	}
	x.failedBy(failureOfClient(err))
}

// responseBody is the body of a backend's response. It records why it does not reach its end.
type responseBody struct {
	io.ReadCloser
	x   *exchange
	ctx context.Context
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.x.failureOf(b.ctx, err)
	}
	return n, err
}

// responseWriter counts a response's body, and tells the sweeper when it waits for the client.
type responseWriter struct {
	http.ResponseWriter
	x       *exchange
	control *http.ResponseController
	body    *requestBody // nil: none
	piece   int          // bytes that are written at once
}

func newResponseWriter(w http.ResponseWriter, x *exchange) *responseWriter {
	out := &responseWriter{ResponseWriter: w, x: x, control: http.NewResponseController(w), piece: math.MaxInt}
	if x.multiplexed {
		out.piece = pieceOf(x.set.config.IdleTimeout)
	}
	return out
}

// pieceOf returns the number of bytes that are written at once to a stream of HTTP/2. The kernel does not count the bytes
// of a stream, so a piece is the progress that the sweeper sees. Clients that take 1 KiB a second make progress.
func pieceOf(idle time.Duration) int {
	return int(min(max(idle/time.Second, 1), 32)) << 10
}

// limitEnd limits the time in which net/http writes the end of a response of HTTP/1.
func (w *responseWriter) limitEnd() {
	w.control.SetWriteDeadline(time.Now().Add(w.x.set.config.IdleTimeout)) //nolint:errcheck // then the client is gone
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
		if w.body != nil && !w.x.multiplexed && !w.body.ended.Load() {
			h.Set("Connection", "close") // the response is early, and the body will not be read to its end
		}
	}
	w.x.writing.Store(true)
	defer w.x.writing.Store(false)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.x.writing.Store(true)
	defer w.x.writing.Store(false)
	for written := 0; written < len(p); {
		n, err := w.ResponseWriter.Write(p[written:][:min(len(p)-written, w.piece)])
		written += n
		w.x.passed.Add(int64(n))
		if err != nil {
			w.x.notTaken(err)
			return written, err
		}
	}
	return len(p), nil
}

// FlushError implements the method that http.ResponseController calls.
func (w *responseWriter) FlushError() error {
	if w.x.bodiless {
		return nil
	}
	w.x.writing.Store(true)
	defer w.x.writing.Store(false)
	err := w.control.Flush()
	if err != nil {
		w.x.notTaken(err)
	}
	return err
}

// notTaken records an error of writing the response to the client.
func (x *exchange) notTaken(err error) {
	if x.set.server.requests.Err() != nil {
		x.failedBy(failStopped)
	}
	x.failedBy(failureOfTaker(err))
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

// tunnel counts the bytes of a client's connection after the change of the protocol.
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
	t.x.passed.Add(int64(len(p))) // before the client has it, and may end the exchange
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
