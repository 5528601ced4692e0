package web

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// upload is a request's body that was not read completely with its head. Another goroutine sends it
// while the response is read, because a backend may answer early, or answer while it reads.
type upload struct {
	chunked bool
	chunk   chunkReader
	left    int64 // if not chunked
	total   int64 // bytes of the body so far

	reading atomic.Bool   // bytes of the client are awaited
	stopped atomic.Bool   // the exchange is over
	last    atomic.Bool   // the last part of the body was read from the client
	ended   atomic.Bool   // the body was sent completely
	done    chan struct{} // closed at the end; nil: not begun
	rest    []byte        // bytes of the next request
	err     error         // of the client
}

func newUpload(h *head) *upload {
	u := &upload{chunked: h.chunked, left: h.length}
	u.chunk.pause = true
	return u
}

// take appends the part of b that is to be sent to out, without trailers. It returns the length of the
// part that belongs to the body.
func (u *upload) take(out, b []byte) ([]byte, int, error) {
	if !u.chunked {
		n := min(int64(len(b)), u.left)
		u.left -= n
		u.total += n
		return append(out, b[:n]...), int(n), nil
	}
	sent := 0
	if u.chunk.pause {
		var err error
		sent, err = u.chunk.next(b)
		out = append(out, b[:sent]...)
		u.total = u.chunk.body
		if err != nil || !u.chunk.paused() {
			return out, sent, err
		}
		u.chunk.pause = false
	}
	skipped, err := u.chunk.next(b[sent:])
	if u.chunk.done() {
		out = append(out, "\r\n"...)
	}
	return out, sent + skipped, err
}

func (u *upload) complete() bool {
	if u.chunked {
		return u.chunk.done()
	}
	return u.left == 0
}

// pending reports whether a part of the body is to come from the client. A nil upload has none.
func (u *upload) pending() bool { return u != nil && !u.last.Load() }

// run sends the body. If the client fails, it closes the connection to the backend, which ends the wait for a
// response.
func (u *upload) run(c *fastConn, l *link, buf []byte) {
	err := u.send(c, l, buf)
	u.ended.Store(err == nil)
	if err == errBackendWrite { // the backend may have sent a response with the reason
		err = nil
	}
	u.err = err
	close(u.done)
	if err != nil {
		l.Close() //nolint:errcheck // the connection is not used again
	}
}

// errBackendWrite is the error of a write to the backend.
var errBackendWrite = errors.New("the backend takes no more of the body")

func (u *upload) send(c *fastConn, l *link, buf []byte) error {
	out := copyBuffers.Get()
	defer copyBuffers.Put(out)
	for !u.complete() {
		if u.stopped.Load() {
			return net.ErrClosed
		}
		if err := u.sendPiece(c, l, buf, out); err != nil {
			return err
		}
	}
	return nil
}

// sendPiece reads bytes from the client and sends them to the backend.
func (u *upload) sendPiece(c *fastConn, l *link, buf, out []byte) error {
	if !u.chunked && u.left >= 2*spliceFrom && c.conn.tcp != nil {
		u.reading.Store(true)
		n, err := io.CopyN(l.TCPConn, c.conn.tcp, min(u.left-spliceFrom, splicePiece)) // without the last part
		u.reading.Store(false)
		u.left -= n
		u.total += n
		return blame(c, err)
	}
	if !u.chunked {
		buf = buf[:min(int64(len(buf)), u.left)]
	}
	u.reading.Store(true)
	n, err := c.conn.Read(buf)
	u.reading.Store(false)
	if n == 0 {
		return err
	}
	piece, used, invalid := u.take(out[:0], buf[:n])
	u.rest = buf[used:n]
	u.last.Store(invalid == nil && u.complete())
	if _, err := l.Write(piece); err != nil && invalid == nil {
		return errBackendWrite
	}
	return invalid
}

// blame returns the cause of a failed copy: the client's error, or errBackendWrite. The error of the copy does not
// say which side has failed, so blame tries to read from the client.
func blame(c *fastConn, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	c.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) //nolint:errcheck // then reading fails
	var one [1]byte
	n, clientErr := c.conn.Read(one[:])
	switch {
	case n > 0, isTimeout(clientErr) && !isTimeout(err):
		return errBackendWrite
	}
	return clientErr
}

// failure returns the failure if the client's error ended the upload.
func (u *upload) failure() (failure, bool) {
	select {
	case <-u.done:
	default:
		return failure{}, false
	}
	if u.err == nil {
		return failure{}, false
	}
	return failureOfClient(u.err), true
}

// waitsForClient reports whether the upload waits for bytes of the client, and has passed on those that came.
func (u *upload) waitsForClient(c *fastConn) bool {
	return u.reading.Load() && !arrived(c.conn.accepted.Raw)
}

// startUpload begins to send the part of the body that is not buffered.
func (x *fastExchange) startUpload() {
	if u := x.upload; u != nil {
		u.done = make(chan struct{})
		x.c.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // that of the wait for the request
		x.c.setUpload(u)
		go u.run(x.c, x.link, x.s.inBuf[:])
	}
}

// endUpload waits until the body is sent if only its last part is under way. Otherwise it stops the upload.
func (x *fastExchange) endUpload() {
	u := x.upload
	if u == nil {
		return
	}
	if u.last.Load() { // the wait is limited, because a backend that has answered early may not read it
		select {
		case <-u.done:
		case <-time.After(lingerTime):
		}
	}
	if !u.ended.Load() {
		x.reusable, x.closes = false, true
		u.stopped.Store(true)
		x.link.Close()                       //nolint:errcheck // it is not used again
		x.c.conn.SetReadDeadline(time.Now()) //nolint:errcheck // the client is gone then
	}
	<-u.done
	x.c.setUpload(nil)
	x.c.reading = deadline{}
	x.record.Received = u.total
	x.s.in = x.s.inBuf[:copy(x.s.inBuf[:], u.rest)]
}
