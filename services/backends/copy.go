package backends

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is one side of a connection: a TCP connection, or TLS over one.
type Stream interface {
	io.ReadWriter
	// CloseWrite ends the bytes in the direction of the peer.
	CloseWrite() error
}

// direction counts the bytes that a connection has copied in one direction.
type direction struct {
	moved atomic.Int64
	first atomic.Int64 // time of the first bytes in Unix nanoseconds; 0: none so far
}

func (d *direction) add(n int64) {
	if n > 0 && d.moved.Add(n) == n {
		d.first.Store(time.Now().UnixNano())
	}
}

// bufferSize is the size of the buffers for bytes in transit, and the number of bytes that must arrive
// at once for more of them to be spliced. io.Copy has the same size.
const bufferSize = 32 << 10

// buffers holds buffers for bytes in transit. Connections that wait hold none.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// Copy starts to copy bytes in both directions until both have ended. Then it closes the TCP
// connections of both sides and calls done. The streams are those TCP connections, or TLS over them.
// The end of one direction is passed on as a half-close. An error ends both with a reset, so that a
// peer can tell a broken stream from a complete one.
//
// Both directions have goroutines of their own, because the caller's has a stack that has grown by a
// dial, and idle connections are many.
func (c *Connection) Copy(client, server Stream, done func()) {
	go c.copyOne(client, server, BackendSide, &c.fromServer, done)
	go c.copyOne(server, client, ClientSide, &c.fromClient, done)
}

// copyOne copies bytes in one direction, from a side. The direction that ends last ends the connection.
func (c *Connection) copyOne(to, from Stream, side Side, d *direction, done func()) {
	err := copyUntilEnd(to, from, d)
	last := c.ended.Add(1) == 2
	if err == nil {
		err = endWrites(to, last)
	}
	if err != nil {
		c.abort(blame(err, side, ClientSide+BackendSide-side))
	}
	if last {
		c.client.Close() //nolint:errcheck // both directions have ended
		c.server.Close() //nolint:errcheck // as above
		done()
	}
}

func copyUntilEnd(to, from Stream, d *direction) error {
	if tcp, ok := from.(*net.TCPConn); ok {
		return copyTCP(to, tcp, d)
	}
	return copyStream(to, from, d)
}

// endWrites half-closes the receiving side. If both directions have ended, it leaves that to the close of a
// TCP connection, which follows.
func endWrites(to Stream, last bool) error {
	if _, tcp := to.(*net.TCPConn); tcp && last {
		return nil
	}
	if err := to.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		return &writeError{err}
	}
	return nil
}

// copyStream copies until the end of from. It waits for bytes with a small buffer, because a Stream does not
// say when it has bytes. While bytes fill that buffer, it uses a large one.
func copyStream(to io.Writer, from io.Reader, d *direction) error {
	small := make([]byte, 1024)
	for {
		n, err := from.Read(small)
		if werr := pass(to, small[:n], d); werr != nil {
			return werr
		}
		if err == nil && n == len(small) {
			err = copyBurst(to, from, d)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// copyBurst copies until from delivers less than half a buffer at once. It returns the error of from, which
// is io.EOF at its end.
func copyBurst(to io.Writer, from io.Reader, d *direction) error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:])
		if werr := pass(to, buf[:n], d); werr != nil {
			return werr
		}
		// TLS delivers a record at a time, which is at most half a buffer.
		if err != nil || n < bufferSize/2 {
			return err
		}
	}
}

// pass writes bytes and counts them.
func pass(to io.Writer, b []byte, d *direction) error {
	if len(b) == 0 {
		return nil
	}
	n, err := to.Write(b)
	d.add(int64(n))
	if err != nil {
		return &writeError{err}
	}
	return nil
}

// AddReceived counts n bytes of the client that the caller has passed on before Copy.
func (c *Connection) AddReceived(n int) { c.fromClient.add(int64(n)) }

// Received returns the number of bytes that were passed on from the client to the backend.
func (c *Connection) Received() int64 { return c.fromClient.moved.Load() }

// Sent returns the number of bytes that were passed on from the backend to the client.
func (c *Connection) Sent() int64 { return c.fromServer.moved.Load() }

// FirstSent returns the time of the backend's first bytes, or the zero time if there were none.
func (c *Connection) FirstSent() time.Time {
	if ns := c.fromServer.first.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}
