package clients

import (
	"context"
	"fmt"
	"net"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
)

// Dial opens a connection from where a client is.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Inside returns a Dial for sockets that do makes in another place, such as a network namespace.
func DialIn(run func(fn func() error) error) Dial {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = run(func() error {
			conn, err = direct(ctx, network, address)
			return err
		})
		return conn, err
	}
}

func direct(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// natsDialer dials a NATS server from where a client is.
type natsDialer struct{ dial Dial }

// Dial implements nats.CustomDialer.
func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	return d.dial(ctx, network, address)
}

// natsOptions returns how a follower connects to NATS.
func (c *Config) natsOptions() []nats.Option {
	all := []nats.Option{nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.SetCustomDialer(natsDialer{c.Dial})}
	if c.Identity != nil {
		all = append(all, nats.Secure(c.Identity.TLS(identity.NATS)))
	}
	return all
}

// registry is one registry as clients reach it.
type registry struct {
	address string
	*grpc.ClientConn
}

// dialAll returns a connection to each address. The connections are closed by the returned
// function.
func dialAll(addresses []string, dial Dial, security grpc.DialOption) ([]registry, func(), error) {
	var all []registry
	closeAll := func() {
		for _, r := range all {
			_ = r.Close()
		}
	}
	for _, address := range addresses {
		conn, err := rpc.TCP().Dial(address, security, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("%s: %w", address, err)
		}
		all = append(all, registry{address, conn})
	}
	return all, closeAll, nil
}
