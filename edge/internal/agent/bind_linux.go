package agent

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Control prepares a socket to listen at an address that the agent has made local. It is a function for
// net.ListenConfig. For IPv4 a local route is enough for the kernel to bind the socket. For IPv6 the address must
// belong to a device, unless the socket has the option IPV6_FREEBIND.
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
