//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// tcpSource reads a TCP connection. It has a buffer only while it has bytes.
type tcpSource struct {
	raw   syscall.RawConn
	ready func(fd uintptr) bool // the method ready, which would be allocated for each read

	bulk      bool // more bytes came than a buffer holds
	buf       *[bufferSize]byte
	n         int   // bytes in buf
	available int64 // bytes that are to be spliced instead
	err       error
}

// copyTCP copies until the end of from. It waits without a buffer and without a pipe, because idle
// connections are many. Few bytes take a read and a write, which cost less than two splices. Where
// more bytes wait in the socket than a buffer holds, the kernel moves them if it can (splice).
func copyTCP(to Stream, from *net.TCPConn, d *direction) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	s := &tcpSource{raw: raw}
	s.ready = s.read
	peer, splices := to.(*net.TCPConn)
	for {
		if err := s.wait(); err != nil {
			return err
		}
		switch {
		case s.available > 0:
			err = splice(peer, from, s.available, d)
		case s.n == 0:
			s.free()
			return nil
		default:
			err = pass(to, s.buf[:s.n], d)
			s.free()
		}
		if err != nil {
			return err
		}
		s.bulk = splices && (s.available > 0 || s.n == bufferSize)
	}
}

// wait waits until the connection has bytes or has ended.
func (s *tcpSource) wait() error {
	if err := s.raw.Read(s.ready); err != nil {
		return err
	}
	return s.err
}

// read is called when the connection may have bytes. It reports whether it has, or has ended.
func (s *tcpSource) read(fd uintptr) bool {
	s.n, s.available, s.err = 0, 0, nil
	if s.bulk {
		if s.available = waiting(fd); s.available >= bufferSize {
			return true
		}
		s.available = 0
	}
	s.buf = buffers.Get().(*[bufferSize]byte)
	for {
		s.n, s.err = syscall.Read(int(fd), s.buf[:]) // #nosec G115 -- a file descriptor
		if s.err != syscall.EINTR {
			break
		}
	}
	if s.err != nil {
		s.n = 0
		s.free()
	}
	return s.err != syscall.EAGAIN
}

func (s *tcpSource) free() {
	buffers.Put(s.buf)
	s.buf = nil
}
