package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"portolan.dev/services/kit/token"
)

// openServices has the beginnings of the names of methods that need no token. Health reports whether the
// daemon is ready, as the open HTTP health checks do, and reflection returns the contract, which is public.
// So supervisors and tools such as grpcurl list need no secret.
var openServices = []string{"/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/", "/grpc.reflection.v1alpha.ServerReflection/"}

// checkToken returns an error unless a call has the token or needs none. Calls over a pipe of a
// MemoryNetwork need none, because they come from the server's own process.
func (s *Server) checkToken(ctx context.Context, call *tap.Info) error {
	if isPipe(ctx) {
		return nil
	}
	for _, open := range openServices {
		if strings.HasPrefix(call.FullMethodName, open) {
			return nil
		}
	}
	return s.opts.Token.Check(call.Header.Get(token.Header))
}

// isPipe reports whether a call comes over a pipe of a MemoryNetwork. No other connection has an
// address of this kind.
func isPipe(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	return ok && p.Addr.Network() == pipeNetwork
}
