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

// Dial opens a connection from a client's network.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialIn returns a Dial that opens connections within run, which may call its argument in another
// network namespace.
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

// natsDialer dials a NATS server from a client's network.
type natsDialer struct{ dial Dial }

// Dial implements nats.CustomDialer.
func (d natsDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	return d.dial(ctx, network, address)
}

// natsOptions returns the options of connections to NATS.
func (c *Config) natsOptions() []nats.Option {
	all := []nats.Option{nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.SetCustomDialer(natsDialer{c.Dial})}
	if c.Identity != nil {
		all = append(all, nats.Secure(c.Identity.TLS(identity.NATS)))
	}
	return all
}

// registry is a connection to a registry, with its address.
type registry struct {
	address string
	*grpc.ClientConn
}

// dialAll returns a connection to each address, and a function that closes them.
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
