package identity

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// BehalfHeader is the request metadata with the path of the ID on whose behalf a call is made. A
// server takes it from callers that its Authorizer allows to act for that ID, and refuses the calls
// of all others that send it.
const BehalfHeader = "portolan-on-behalf-of"

type representedKey struct{}

// Represent returns a context in which Caller returns id. A server calls it after it has read the
// header of a call on behalf of id, or after it has identified a client in another way than by gRPC.
func Represent(ctx context.Context, id ID) context.Context {
	return context.WithValue(ctx, representedKey{}, id)
}

// Actor returns the identity of the caller that makes the call of ctx on behalf of another one, which
// Caller returns. ok is false if the caller acts for itself.
func Actor(ctx context.Context) (actor ID, ok bool) {
	client, called := callerOf(ctx)
	if _, represented := ctx.Value(representedKey{}).(ID); !represented || !called {
		return ID{}, false
	}
	return client.id, client.err == nil
}

// OnBehalfOf returns a context whose outgoing calls are on behalf of id.
func OnBehalfOf(ctx context.Context, id ID) context.Context {
	return metadata.AppendToOutgoingContext(ctx, BehalfHeader, id.Path())
}
