package dataplanetest

import (
	"net"

	"golang.org/x/sys/unix"
)

// retransmits tells how many segments of a TCP connection were sent again; it
// does not know of other connections.
func retransmits(conn net.Conn) (n uint32) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { //nolint:errcheck // 0 then
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Total_retrans
		}
	})
	return n
}
