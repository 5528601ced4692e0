package rpc

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// serviceConfig distributes calls over all addresses of the target. It has no retry policy, because
// the library already retries calls that never reached a server, and only the caller can decide
// whether another call may be repeated.
const serviceConfig = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, addr string) (net.Conn, error)

// dial returns a client connection to target, which is any target of gRPC or a comma-separated list
// of addresses. Options in opts take precedence.
func dial(target string, open dialFunc, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	base := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(open),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(), // clients are not configured by DNS
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec()),
			grpc.MaxCallRecvMsgSize(DefaultMaxMessage),
			grpc.MaxCallSendMsgSize(DefaultMaxMessage),
		),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true,
		}),
		// A daemon restarts within seconds. With the library's default backoff its clients could
		// wait for up to two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if strings.Contains(target, ",") {
		list, schemed := staticResolver(target)
		base = append(base, grpc.WithResolvers(list))
		target = schemed
	}
	return grpc.NewClient(target, append(base, opts...)...)
}

// staticResolver returns a resolver for a target such as "10.0.0.1:7400,10.0.0.2:7400", and the
// target with the resolver's scheme.
func staticResolver(target string) (resolver.Builder, string) {
	r := manual.NewBuilderWithScheme("list")
	var state resolver.State
	for addr := range strings.SplitSeq(target, ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
		}
	}
	r.InitialState(state)
	return r, "list:///" + target
}
