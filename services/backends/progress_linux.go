package backends

import (
	"net"

	"golang.org/x/sys/unix"
)

// Progress returns a number that changes if and only if the client has sent or received bytes. It is
// the kernel's count, because a connection that is spliced, or has a slow peer, may move bytes for a long
// time without a return to this process.
func (c *Connection) Progress() uint64 { return Progress(c.client) }

// Progress returns a number that changes if and only if the peer of a connection has sent or received bytes.
func Progress(conn *net.TCPConn) uint64 {
	info := infoOf(conn)
	return info.Bytes_received + info.Bytes_acked
}

// States of connections, of which golang.org/x/sys/unix has no names.
const (
	stateClosed    = 7
	stateCloseWait = 8
)

// Gone reports whether a connection that is not closed here has been reset by its peer, or is lost.
func Gone(conn *net.TCPConn) bool { return infoOf(conn).State == stateClosed }

// Left reports whether the peer of a connection that is not closed here has closed or reset it. A peer that has closed
// its own direction only has left, too, because that cannot be told apart.
func Left(conn *net.TCPConn) bool {
	state := infoOf(conn).State
	return state == stateCloseWait || state == stateClosed
}

// infoOf returns what the kernel knows of a connection, or nothing if it is closed here.
func infoOf(conn *net.TCPConn) (info unix.TCPInfo) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return info
	}
	raw.Control(func(fd uintptr) { //nolint:errcheck // then there is no info
		if found, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil { // #nosec G115 -- a file descriptor
			info = *found
		}
	})
	return info
}
