package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/apierr"
)

// request is a message that the codec decodes only if its encoded size is within the limit. A
// decoded message can take many times the memory of the encoded one. gRPC has one limit for the
// requests of all methods, and decodes a request before it calls an interceptor.
type request struct {
	message     any
	limit, size int // in bytes; the codec sets size
}

// err returns the error for a request that was too large to be decoded.
func (r *request) err(method string) error {
	if r.size <= r.limit {
		return nil
	}
	return apierr.Exhausted("MaxRequest", fmt.Sprintf("the request of %s has %d bytes, at most %d are allowed", method, r.size, r.limit))
}

// maxRequest returns the limit of the requests of a method in bytes.
func (s *Server) maxRequest(method string) int {
	if s.opts.MaxRequest != nil {
		if limit := s.opts.MaxRequest(method); limit > 0 {
			return limit
		}
	}
	return s.opts.MaxMessage
}

// bounded returns a copy of a service's description. Its unary methods refuse too large requests.
// Server.stream does the same for streams.
func (s *Server) bounded(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	out := *desc
	out.Methods = slices.Clone(desc.Methods)
	for i, method := range out.Methods {
		out.Methods[i].Handler = s.boundedHandler("/"+desc.ServiceName+"/"+method.MethodName, method.Handler)
	}
	return &out
}

func (s *Server) boundedHandler(method string, handler grpc.MethodHandler) grpc.MethodHandler {
	limit := s.maxRequest(method)
	return func(impl any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		c := call{method: method, start: time.Now()}
		return handler(impl, ctx, func(message any) error {
			r := &request{message: message, limit: limit}
			if err := decode(r); err != nil {
				s.record(ctx, c, status.Code(err), time.Since(c.start), nil)
				return err
			}
			if err := r.err(method); err != nil {
				return s.ended(ctx, c, err)
			}
			return nil
		}, interceptor)
	}
}

// noCompression refuses compressed requests. A small compressed request would take the memory of
// the largest request, and no client of Portolan compresses.
type noCompression struct{}

var errCompressed = errors.New("compressed requests are not accepted")

// Do implements grpc.Decompressor.
func (noCompression) Do(io.Reader) ([]byte, error) { return nil, errCompressed }

// Type implements grpc.Decompressor. gzip is the only compression that programs of Portolan have.
func (noCompression) Type() string { return "gzip" }
