package tracing

import (
	"net"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"portolan.dev/services/kit/rpc"
)

// untracedMethods lists the prefixes of methods that are not traced. Their calls are streams without an end
// or regular requests of followers.
var untracedMethods = []string{"/grpc.", "/portolan.registry.v1.ChangeService/"}

func traced(info *stats.RPCTagInfo) bool {
	for _, prefix := range untracedMethods {
		if strings.HasPrefix(info.FullMethodName, prefix) {
			return false
		}
	}
	return !strings.HasSuffix(info.FullMethodName, "/Watch")
}

func (t *Tracer) options() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithPropagators(w3c), otelgrpc.WithFilter(traced),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()), // services/kit/rpc counts calls
	}
}

// ServerOption returns a gRPC option with which each call begins or continues a trace.
func (t *Tracer) ServerOption() grpc.ServerOption {
	if t == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.StatsHandler(otelgrpc.NewServerHandler(t.options()...))
}

// Network returns a network with clients that add the trace of a call to its metadata.
func (t *Tracer) Network(below rpc.Network) rpc.Network {
	if t == nil {
		return below
	}
	return network{below, grpc.WithStatsHandler(otelgrpc.NewClientHandler(t.options()...))}
}

type network struct {
	below  rpc.Network
	option grpc.DialOption
}

// Listen implements rpc.Network.
func (n network) Listen(addr string) (net.Listener, error) { return n.below.Listen(addr) }

// Dial implements rpc.Network.
func (n network) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return n.below.Dial(target, append([]grpc.DialOption{n.option}, opts...)...)
}
