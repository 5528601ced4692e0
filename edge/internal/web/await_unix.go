//go:build unix

package web

import (
	"io"
	"net"
	"syscall"
)

// reader waits for bytes of a connection without holding a buffer.
type reader struct {
	raw  syscall.RawConn
	read func(fd uintptr) bool // allocated once

	scratch *scratch
	err     error
}

func newReader(tcp *net.TCPConn) *reader {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	r := &reader{raw: raw}
	r.read = r.try
	return r
}

// await waits for bytes and reads them to a new scratch.
func (r *reader) await() (*scratch, error) {
	r.scratch, r.err = nil, nil
	if err := r.raw.Read(r.read); err != nil {
		return nil, err
	}
	return r.scratch, r.err
}

// try reads, or reports false if there is nothing to read.
func (r *reader) try(fd uintptr) bool {
	s := getScratch()
	for {
		n, err := syscall.Read(int(fd), s.inBuf[:]) // #nosec G115 -- a file descriptor
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			s.put()
			return false
		case err != nil:
			r.err = err
		case n == 0:
			r.err = io.EOF
		default:
			s.in = s.inBuf[:n]
			r.scratch = s
			return true
		}
		s.put()
		return true
	}
}

// alive reports whether an idle connection can be used: it has not ended, and no unexpected bytes have arrived.
func alive(raw syscall.RawConn) bool {
	var open bool
	err := raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT) // #nosec G115 -- a file descriptor
		open = err == syscall.EAGAIN
		return true
	})
	return err == nil && open
}

// arrived reports whether bytes of a connection wait to be read.
func arrived(tcp *net.TCPConn) (waits bool) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) { //nolint:errcheck // then none wait
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT) // #nosec G115 -- a file descriptor
		waits = err == nil && n > 0
	})
	return waits
}
