package listen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
)

// Conn is a client's connection that is ready to be served. It reads and writes the bytes inside of TLS if TLS was
// terminated. After a PROXY header, reads begin behind the header, and the addresses are taken from it.
type Conn struct {
	net.Conn

	// Raw is the client's TCP connection, below the PROXY header and TLS.
	Raw *net.TCPConn
	// TLS is Conn if TLS was terminated, otherwise nil.
	TLS      *tls.Conn
	Accepted time.Time
	// Peer is the remote address of the TCP connection. Client and Local are the source and the destination
	// in the PROXY header. Without a header they are the remote and the local address of the TCP connection.
	Peer, Client, Local netip.AddrPort

	listener *Listener
	closed   atomic.Bool
	header   *afterHeader // nil: there was no PROXY header
}

// Close closes the connection. It must be called also after Raw was closed, because the listener
// counts the connection until then.
func (c *Conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.listener.connections.remove(c.Client.Addr())
	}
	return c.Conn.Close()
}

// TakeBuffered returns the bytes that were read from Raw together with the PROXY header, and not from Conn since. A
// caller that reads from Raw instead of Conn must take them first. With TLS there are none.
func (c *Conn) TakeBuffered() []byte {
	if c.TLS != nil || c.header == nil {
		return nil
	}
	rest := c.header.rest
	c.header.rest = nil
	return rest
}

// afterHeader is a TCP connection after its PROXY header. It has only the methods of net.Conn, because ReadFrom and
// WriteTo of a TCP connection would skip the bytes in rest.
type afterHeader struct {
	net.Conn
	rest          []byte // read together with the header
	client, local net.Addr
}

// Read implements net.Conn.
func (a *afterHeader) Read(b []byte) (int, error) {
	if len(a.rest) == 0 {
		return a.Conn.Read(b)
	}
	n := copy(b, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		a.rest = nil
	}
	return n, nil
}

// RemoteAddr implements net.Conn.
func (a *afterHeader) RemoteAddr() net.Addr { return a.client }

// LocalAddr implements net.Conn.
func (a *afterHeader) LocalAddr() net.Addr { return a.local }

// readers holds readers for PROXY headers. Their buffers hold the largest header that is accepted.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16+int(proxyproto.MaxV2HeaderSize)) }}

// readHeader reads the PROXY header, and checks whether the client that it names is admitted.
func (c *Conn) readHeader(s *Settings) Reason {
	r := readers.Get().(*bufio.Reader)
	defer readers.Put(r)
	defer r.Reset(nil)
	r.Reset(c.Raw)
	if !waitForHeader(r) {
		return BadHeader
	}
	header, err := proxyproto.Read(r)
	if err != nil {
		return BadHeader
	}
	rest, _ := r.Peek(r.Buffered()) //nolint:errcheck // it reads nothing
	c.header = &afterHeader{Conn: c.Raw, rest: bytes.Clone(rest), client: c.Raw.RemoteAddr(), local: c.Raw.LocalAddr()}
	c.Conn = c.header
	if header.Command.IsLocal() {
		return ""
	}
	client, local, ok := header.TCPAddrs()
	if !ok {
		return BadHeader
	}
	c.header.client, c.header.local = client, local
	c.Client, c.Local = addrOf(client), addrOf(local)
	if !s.admits(c.Client.Addr()) {
		return NotAdmitted
	}
	return ""
}

// waitForHeader waits until a header of version 1 is buffered completely, because the parser refuses a header that
// arrives in parts. It does not wait for other headers. It reports whether the connection is alive.
func waitForHeader(r *bufio.Reader) bool {
	const longest = 107 // bytes of a header of version 1
	for n := 1; ; n = r.Buffered() + 1 {
		if _, err := r.Peek(n); err != nil {
			return false
		}
		buffered, _ := r.Peek(r.Buffered()) //nolint:errcheck // it reads nothing
		signature := proxyproto.SIGV1[:min(len(buffered), len(proxyproto.SIGV1))]
		if !bytes.HasPrefix(buffered, signature) || len(buffered) >= longest || bytes.IndexByte(buffered, '\n') >= 0 {
			return true
		}
	}
}

// terminateTLS does the TLS handshake. It reports whether that succeeded.
func (c *Conn) terminateTLS(config *tls.Config) bool {
	c.TLS = tls.Server(c.Conn, config)
	c.Conn = c.TLS
	// The deadline of the connection ends the handshake. A context would need a goroutine.
	return c.TLS.HandshakeContext(context.Background()) == nil
}
