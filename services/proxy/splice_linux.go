package proxy

import (
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// waiting returns the number of bytes that wait in a socket.
func waiting(fd uintptr) int64 {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ) // #nosec G115 -- a file descriptor
	if err != nil {
		return 0
	}
	return int64(n)
}

// splice moves n bytes that wait in from. Because it never waits for more of them, it holds its pipe
// no longer than the receiver needs.
func splice(to, from *net.TCPConn, n int64, d *direction) error {
	moved, err := to.ReadFrom(&io.LimitedReader{R: from, N: n})
	d.add(moved)
	return err
}
