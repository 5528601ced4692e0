package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/tap"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// admit decides about a call when its headers have arrived. gRPC reads and decodes no message of a
// call that admit refuses. The calls of one connection wait for it, so it must not block.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	stream, served := s.methods[info.FullMethodName]
	c := call{method: info.FullMethodName, stream: stream, start: time.Now()}
	if !served {
		s.record(ctx, c, codes.Unimplemented, 0, nil)
		return ctx, nil // gRPC answers
	}
	if s.opts.Identity == nil && s.opts.Token == nil {
		return ctx, nil
	}
	ctx, err := s.representing(ctx, info)
	if err == nil {
		err = s.authorize(ctx, info)
	}
	if err != nil {
		return ctx, s.ended(ctx, c, err)
	}
	return ctx, nil
}

// representing adds the represented identity to the context of a call, if the call has the header for it.
// authorize decides whether the caller may represent this identity. A server without an identity ignores
// the header, because it does not know its callers either.
func (s *Server) representing(ctx context.Context, info *tap.Info) (context.Context, error) {
	names := info.Header.Get(identity.BehalfHeader)
	if s.opts.Identity == nil || len(names) == 0 {
		return ctx, nil
	}
	if _, err := identity.Caller(ctx); err != nil {
		return ctx, nil //nolint:nilerr // authorize refuses a caller without an identity
	}
	id, err := identity.ParsePath(s.opts.Identity.ID().TrustDomain, names[0])
	if err != nil || len(names) > 1 {
		return ctx, apierr.Unauthenticated(fmt.Sprintf("%s: want the path of one identity, such as operator/shop", identity.BehalfHeader))
	}
	if tokens := info.Header.Get(identity.TokenHeader); len(tokens) > 0 {
		ctx = identity.WithToken(ctx, tokens[0])
	}
	return identity.Represent(ctx, id), nil
}

// authorize returns an error if the caller may not make the call.
func (s *Server) authorize(ctx context.Context, info *tap.Info) error {
	if s.opts.Identity == nil {
		return s.checkToken(ctx, info)
	}
	if end, ok := identity.Expiry(ctx); ok && !time.Now().Before(end) {
		disconnectRefused(ctx)
		return errExpired(end)
	}
	if err := CheckRevoked(ctx); err != nil {
		disconnectRefused(ctx)
		return err
	}
	return s.opts.Authorizer.Authorize(ctx, info.FullMethodName)
}

// refusedGrace is the time in which a client can read the error before disconnectRefused closes its
// connection.
const refusedGrace = time.Second

// disconnectRefused closes the connection of a client with an expired or revoked certificate. The client
// then connects again, with its current certificate.
func disconnectRefused(ctx context.Context) {
	time.AfterFunc(refusedGrace, func() { identity.Disconnect(ctx) })
}

// errExpired returns the error for calls and streams of a client whose certificate expired at end.
func errExpired(end time.Time) error {
	return apierr.Unauthenticated(fmt.Sprintf(
		"the client's certificate expired at %s: portolan certs renew makes a new one", end.UTC().Format(time.RFC3339)))
}

// CheckRevoked returns an error of the API if the certificate of the client that made the call of
// ctx was revoked. A call is checked when it begins. A method that must not act for a client that
// was revoked in the meantime checks again immediately before it acts.
func CheckRevoked(ctx context.Context) error {
	if err := identity.CheckRevoked(ctx); err != nil {
		return errRevoked(err)
	}
	return nil
}

// errRevoked returns the error for calls and streams of a client with a revoked certificate.
func errRevoked(err error) error {
	return apierr.Unauthenticated(fmt.Sprintf("the client's certificate %v", err))
}
