//go:build unix

package userspace

import (
	"syscall"
	"time"
)

// answerOne waits for a datagram without holding a buffer, then forwards it.
func (fl *flow) answerOne(deadline time.Time) error {
	if err := fl.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	raw, err := fl.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		n, err := syscall.Read(int(fd), *buf)
		if err == syscall.EAGAIN || err == syscall.EINTR {
			return false
		}
		if failed = err; err == nil {
			fl.socket.conn.WriteToUDPAddrPort((*buf)[:n], fl.client) //nolint:errcheck // UDP: the client may be gone
		}
		return true
	})
	if err != nil {
		return err
	}
	return failed
}
