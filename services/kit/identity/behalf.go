package identity

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// BehalfHeader is the request metadata with the path of the ID that the caller represents. A server
// accepts it from callers that its Authorizer allows to act for that ID, and refuses the calls of all
// other callers that send it.
const BehalfHeader = "portolan-on-behalf-of"

// TokenHeader is the request metadata with the name of the token by which that ID was proved. It is for
// the audit log only.
const TokenHeader = "portolan-token"

type (
	representedKey struct{}
	tokenKey       struct{}
)

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

// WithToken returns a context in which TokenOf returns the name of the token by which the represented ID
// was proved.
func WithToken(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tokenKey{}, name)
}

// TokenOf returns the name of the token by which the represented ID of ctx was proved. It is empty if it
// was proved by a certificate.
func TokenOf(ctx context.Context) string {
	name, _ := ctx.Value(tokenKey{}).(string)
	return name
}

// OnBehalfOf returns a context for outgoing calls on behalf of id.
func OnBehalfOf(ctx context.Context, id ID) context.Context {
	if name := TokenOf(ctx); name != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, TokenHeader, name)
	}
	return metadata.AppendToOutgoingContext(ctx, BehalfHeader, id.Path())
}
