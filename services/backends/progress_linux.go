package backends

import "golang.org/x/sys/unix"

// Progress returns a number that changes if and only if the client has sent or received bytes. It is
// the kernel's count, because a connection that is spliced, or has a slow peer, may move bytes for a long
// time without a return to this process.
func (c *Connection) Progress() uint64 {
	raw, err := c.client.SyscallConn()
	if err != nil {
		return 0
	}
	var info *unix.TCPInfo
	failed := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) // #nosec G115 -- a file descriptor
	})
	if failed != nil || err != nil {
		return 0
	}
	return info.Bytes_received + info.Bytes_acked
}
