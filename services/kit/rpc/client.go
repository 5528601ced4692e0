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

// serviceConfig spreads calls over all addresses of the target. It has no retry
// policy: the library already repeats calls that never reached a server, and
// only the caller knows whether another may be repeated.
const serviceConfig = `{"loadBalancingConfig":[{"round_robin":{}}]}`

// dialFunc opens one connection.
type dialFunc func(ctx context.Context, addr string) (net.Conn, error)

// dial returns a client of target, which is whatever gRPC understands, or a
// comma separated list of addresses. Options given by the caller win.
func dial(target string, open dialFunc, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	base := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(open),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(), // nobody configures our clients by DNS
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
		// A daemon that restarts is back within seconds; the library's default
		// would leave its clients waiting for up to two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if strings.Contains(target, ",") {
		list, schemed := fixedList(target)
		base = append(base, grpc.WithResolvers(list))
		target = schemed
	}
	return grpc.NewClient(target, append(base, opts...)...)
}

// fixedList resolves a target such as "10.0.0.1:7400,10.0.0.2:7400" to its
// members.
func fixedList(target string) (resolver.Builder, string) {
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
