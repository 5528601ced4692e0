package lbctl

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"

	"portolan.dev/lbctl/internal/pool"
	"portolan.dev/lbctl/internal/providers"
)

// pipeBytes is the capacity of the pipe to a built-in provider in each direction.
const pipeBytes = 256 << 10

// openProviders makes the built-in providers, and connects to the others.
func (d *Daemon) openProviders(host app.Host) error {
	d.providers = providers.New(d.cfg.ProviderTimeout, host.Metrics)
	shares := pool.NewShares(d.view)
	for _, kind := range builtin {
		d.pool = d.newPool(kind, shares)
		server := newBuiltinServer(d.pool)
		conn, err := server.dial()
		if err != nil {
			return err
		}
		d.builtin = append(d.builtin, server)
		d.providers.Add(kind.Class, conn)
	}
	d.providers.Alias("", pool.Nodes.Class)
	for _, p := range d.cfg.Providers {
		conn, err := host.Network.Dial(p.Addr, host.Identity.DialOption(identity.LBProvider))
		if err != nil {
			return err
		}
		d.providers.Add(p.Class, conn)
	}
	return nil
}

// builtinServer serves a built-in provider over a pipe, which no other process reaches.
type builtinServer struct {
	server *grpc.Server
	pipe   *bufconn.Listener
}

func newBuiltinServer(provider loadbalancerv1.LoadBalancerProviderServiceServer) *builtinServer {
	s := &builtinServer{server: grpc.NewServer(), pipe: bufconn.Listen(pipeBytes)}
	loadbalancerv1.RegisterLoadBalancerProviderServiceServer(s.server, provider)
	return s
}

// dial returns a connection to the provider.
func (s *builtinServer) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///builtin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.pipe.DialContext(ctx) }))
}

// run serves until ctx is done.
func (s *builtinServer) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, s.server.Stop)()
	return s.server.Serve(s.pipe)
}
