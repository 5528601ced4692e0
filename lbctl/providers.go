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

	"portolan.dev/lbctl/internal/providers"
)

// pipeBytes is the capacity of the pipe to the built-in provider in each direction.
const pipeBytes = 256 << 10

// openProviders makes the built-in provider, and connects to the others.
func (d *Daemon) openProviders(host app.Host) error {
	d.pool = d.newPool()
	d.providers = providers.New(d.cfg.ProviderTimeout, host.Metrics)
	d.builtin = newBuiltinServer(d.pool)
	conn, err := d.builtin.dial()
	if err != nil {
		return err
	}
	d.providers.Add(builtin, conn)
	d.providers.Alias("", builtin)
	for _, p := range d.cfg.Providers {
		conn, err := host.Network.Dial(p.Addr, host.Identity.DialOption(identity.LBProvider))
		if err != nil {
			return err
		}
		d.providers.Add(p.Class, conn)
	}
	return nil
}

// builtinServer serves the built-in provider over a pipe, which no other process reaches.
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
