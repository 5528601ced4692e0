package daemon

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"portolan.dev/services/kit/rpc"
)

// Listen listens on the address of the gRPC API on a host's network.
func (c *Common) Listen(network rpc.Network) (net.Listener, error) {
	lis, err := network.Listen(c.Addr)
	return lis, ListenError("addr", err)
}

// ListenError adds to an error of listening the flag with the address and, if known, the remedy. It
// returns nil if err is nil.
func ListenError(flag string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %w: stop the program that has this port, or choose another one", flag, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %w: choose an address of this machine", flag, err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %w: give the program CAP_NET_BIND_SERVICE, or choose a port above 1023", flag, err)
	}
	return fmt.Errorf("%s: %w", flag, err)
}
