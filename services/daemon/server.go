package daemon

import (
	"google.golang.org/grpc"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/rpc"
)

// NewServer returns the gRPC server of a daemon on its host. If the host has an identity,
// authorizer decides which calls the server answers. Options in extra are passed to gRPC.
func NewServer(host app.Host, authorizer rpc.Authorizer, extra ...grpc.ServerOption) *rpc.Server {
	return rpc.NewServer(rpc.ServerOptions{
		Log: host.Log, Metrics: host.Metrics, Health: host.Health, Identity: host.Identity, Authorizer: authorizer,
		Extra: append(extra, host.Tracer.ServerOption()),
	})
}
