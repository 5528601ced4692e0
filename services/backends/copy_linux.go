package backends

import (
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tcpCopy copies from a TCP connection. It has a buffer only while it has bytes.
type tcpCopy struct {
	to   io.Writer
	peer *net.TCPConn // to, if it is a TCP connection
	// in and out wait until the connections are ready. readable and writable are the methods read and
	// write, which would otherwise be allocated for each call.
	in, out            syscall.RawConn
	readable, writable func(fd uintptr) bool

	buf     *[bufferSize]byte // nil: none
	pending []byte            // the bytes in buf that to has not taken
	bulk    bool              // more bytes came than a buffer holds
	waiting int64             // bytes that are to be spliced
	ended   bool              // the connection has ended
	err     error             // of the last call of read or write
}

// copyTCP copies until the end of from. It waits without a buffer and without a pipe, because idle
// connections are many. Few bytes take a read and a write, which cost less than two splices. If more
// bytes wait in the socket than a buffer holds, the kernel moves them without copies to this process
// (splice).
func copyTCP(to Stream, from *net.TCPConn, d *direction) error {
	c := &tcpCopy{to: to}
	c.readable, c.writable = c.read, c.write
	var err error
	if c.in, err = from.SyscallConn(); err != nil {
		return err
	}
	if peer, ok := to.(*net.TCPConn); ok {
		c.peer = peer
		if c.out, err = peer.SyscallConn(); err != nil {
			return err
		}
	}
	for {
		if err := c.wait(); err != nil || c.ended {
			return err
		}
		if c.waiting > 0 {
			err = c.splice(from, d)
		} else {
			err = c.pass(d)
		}
		if err != nil {
			return err
		}
	}
}

// wait waits until from has bytes or has ended.
func (c *tcpCopy) wait() error {
	if err := c.in.Read(c.readable); err != nil {
		return err
	}
	return c.err
}

// read is called when from may have bytes. It reports whether it has, or has ended.
func (c *tcpCopy) read(fd uintptr) bool {
	if c.bulk {
		if c.waiting = waiting(fd); c.waiting >= bufferSize {
			return true
		}
		c.waiting, c.bulk = 0, false
	}
	c.buf = buffers.Get().(*[bufferSize]byte)
	n, errno := transfer(syscall.SYS_READ, fd, c.buf[:])
	if n > 0 {
		c.pending, c.bulk = c.buf[:n], c.peer != nil && n == bufferSize
		return true
	}
	c.free()
	switch errno {
	case 0:
		c.ended = true
	case syscall.EAGAIN:
		return false
	default:
		c.err = errno
	}
	return true
}

// pass writes the pending bytes to the other side.
func (c *tcpCopy) pass(d *direction) error {
	defer c.free()
	if c.peer == nil {
		return pass(c.to, c.pending, d)
	}
	n := len(c.pending)
	err := c.out.Write(c.writable)
	d.add(int64(n - len(c.pending)))
	if err == nil {
		err = c.err
	}
	if err != nil {
		return &writeError{err}
	}
	return nil
}

// write is called when to may take bytes. It reports whether it has taken all.
func (c *tcpCopy) write(fd uintptr) bool {
	for len(c.pending) > 0 {
		n, errno := transfer(syscall.SYS_WRITE, fd, c.pending)
		switch {
		case n > 0:
			c.pending = c.pending[n:]
		case errno == syscall.EAGAIN:
			return false
		default:
			c.err = errno
			return true
		}
	}
	return true
}

// splice moves the bytes that wait in from. Because it never waits for more of them, it holds a pipe
// no longer than the receiver needs.
func (c *tcpCopy) splice(from *net.TCPConn, d *direction) error {
	moved, err := c.peer.ReadFrom(&io.LimitedReader{R: from, N: c.waiting})
	d.add(moved)
	if err != nil && Gone(c.peer) {
		return &writeError{err}
	}
	return err
}

func (c *tcpCopy) free() {
	buffers.Put(c.buf)
	c.buf, c.pending = nil, nil
}

// waiting returns the number of bytes that wait in a socket.
func waiting(fd uintptr) int64 {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ) // #nosec G115 -- a file descriptor
	if err != nil {
		return 0
	}
	return int64(n)
}

// transfer reads or writes a socket, which does not block. It tells Go's scheduler nothing of the
// system call, because the scheduler would take calls that the kernel spends in the network stack for
// blocking ones and start threads, which costs a fifth of all the time for short messages.
func transfer(call, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))) // #nosec G103 -- the kernel's address of b
		if errno == 0 {
			return int(n), 0 // #nosec G115 -- at most len(b)
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}
