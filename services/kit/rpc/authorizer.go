package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// Authorizer decides which calls a server answers. It is safe for concurrent use.
type Authorizer interface {
	// CheckComplete returns an error unless the authorizer has a rule for every method of the given
	// services. A server calls it once, before it starts to serve.
	CheckComplete(services map[string]grpc.ServiceInfo) error
	// Authorize returns an error unless the call of ctx may be made. ctx has the caller's
	// certificate (see identity.Caller) and the headers of the call, but not the request. method is
	// the full name of the method, such as /portolan.dns.v1.DNSService/Query. The caller receives
	// the error, which is one of package apierr.
	Authorize(ctx context.Context, method string) error
}
