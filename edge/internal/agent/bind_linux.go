package agent

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Control prepares a socket that is to listen at an address which the agent has made local. It is a
// function for net.ListenConfig. The kernel binds a socket of IPv6 only to addresses of devices unless
// it is told otherwise, while for IPv4 a local route is enough.
func (c *Client) Control(network, _ string, conn syscall.RawConn) error {
	if c.conn == nil || network != "tcp6" {
		return nil
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
	})
	if err != nil {
		return err
	}
	return failed
}
