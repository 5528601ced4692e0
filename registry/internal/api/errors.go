package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
)

// retryAfter is the delay that clients are asked to wait if the store does not answer.
const retryAfter = time.Second

// translate converts errors of the store to errors of the API. Other errors are returned unchanged.
func translate(err error) error {
	var (
		pruned   *store.Pruned
		fenced   *store.Fenced
		conflict *store.ConflictError
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnavailable):
		return apierr.Unavailable("the registry's store does not answer", retryAfter)
	case errors.Is(err, store.ErrUnknown):
		return apierr.Unavailable("the store went away in the middle of the write: read the object to see whether it happened", retryAfter)
	case errors.Is(err, store.ErrClosed):
		return apierr.Unavailable("the registry is shutting down", retryAfter)
	case errors.As(err, &pruned):
		return apierr.OutOfRange(pruned.Error(), pruned.Oldest)
	case errors.As(err, &fenced):
		return apierr.FailedPrecondition(fmt.Sprintf("%s is at epoch %d, not %d: the writer does not hold it", fenced.Fence.Lease, fenced.Have, fenced.Fence.Epoch))
	case errors.As(err, &conflict):
		return apierr.Unavailable("the registry was written to meanwhile", retryAfter)
	}
	return err
}

// Interceptors returns the interceptors that a server of this package's services needs.
func Interceptors() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			answer, err := handler(ctx, req)
			return answer, translate(err)
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			return translate(handler(server, stream))
		}),
	}
}
