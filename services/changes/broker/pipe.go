package broker

import (
	"io"
	"net"
	"sync"
	"time"
)

// pipe returns the two ends of a connection. Writing never waits.
func pipe() (a, b net.Conn) {
	there, back := newBytes(), newBytes()
	return &end{in: back, out: there}, &end{in: there, out: back}
}

// bytes is one direction of a connection.
type bytes struct {
	mu      sync.Mutex
	arrived *sync.Cond
	waiting []byte
	closed  bool
}

func newBytes() *bytes {
	b := &bytes{}
	b.arrived = sync.NewCond(&b.mu)
	return b
}

func (b *bytes) write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	b.waiting = append(b.waiting, p...)
	b.arrived.Signal()
	return len(p), nil
}

func (b *bytes) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) == 0 {
		if b.closed {
			return 0, io.EOF
		}
		b.arrived.Wait()
	}
	n := copy(p, b.waiting)
	b.waiting = b.waiting[n:]
	return n, nil
}

func (b *bytes) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.waiting = true, nil
	b.arrived.Broadcast()
}

// end is one end of a connection. It ignores deadlines, because no write waits, and the NATS client
// detects a silent server by its pings.
type end struct{ in, out *bytes }

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *end) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

func (e *end) LocalAddr() net.Addr              { return address{} }
func (e *end) RemoteAddr() net.Addr             { return address{} }
func (e *end) SetDeadline(time.Time) error      { return nil }
func (e *end) SetReadDeadline(time.Time) error  { return nil }
func (e *end) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }
