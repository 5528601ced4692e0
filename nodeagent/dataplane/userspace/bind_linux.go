package userspace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBind lets a socket listen at an address that is local by a route. For IPv4 the route is enough. For IPv6 the
// address must belong to a device, unless the socket has the option IPV6_FREEBIND. It is a function for
// net.ListenConfig.
func freeBind(network, _ string, conn syscall.RawConn) error {
	if network != "tcp6" && network != "udp6" {
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
