package rpc

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
)

// Network connects daemons with each other.
type Network interface {
	// Listen listens on addr for a server.
	Listen(addr string) (net.Listener, error)
	// Dial returns a client connection to target. It does not wait until the connection is
	// established.
	Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error)
}

// TCP returns the network that uses TCP.
func TCP() Network { return tcpNetwork{} }

type tcpNetwork struct{}

func (tcpNetwork) Listen(addr string) (net.Listener, error) { return listenTCP(addr) }

func (tcpNetwork) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := dial(target, dialTCP, opts)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	return conn, nil
}

func listenTCP(addr string) (net.Listener, error) {
	return net.Listen("tcp", addr) // the error names the address
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
