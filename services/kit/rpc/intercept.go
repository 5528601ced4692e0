package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"portolan.dev/services/kit/apierr"
)

// call runs a handler with everything that unary calls and streams share, so that neither can omit
// a part.
func (s *Server) call(ctx context.Context, method string, stream bool, handler func() error) error {
	start := time.Now()
	err := s.authorize(ctx, method)
	if err == nil {
		err = s.recovered(method, handler)
	}
	st := apierr.ToStatus(err)
	took := time.Since(start)
	s.metrics.done(method, stream, st.Code(), took)
	s.logCall(ctx, method, st.Code(), took, err)
	return st.Err()
}

// authorize returns an error if the caller may not make the call.
func (s *Server) authorize(ctx context.Context, method string) error {
	if s.opts.Identity == nil {
		return nil
	}
	return s.opts.Authorizer.Authorize(ctx, method)
}

// recovered converts a panic of the handler to an internal error.
func (s *Server) recovered(method string, handler func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.metrics.panics.Inc()
			s.log.Error("handler panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = apierr.Internal(fmt.Errorf("panic: %v", p))
		}
	}()
	return handler()
}

// logCall logs faults of the server at level error and all other calls at level debug, because a
// client reads its own errors.
func (s *Server) logCall(ctx context.Context, method string, code codes.Code, took time.Duration, err error) {
	level := slog.LevelDebug
	if code == codes.Internal || code == codes.Unknown || code == codes.DataLoss {
		level = slog.LevelError
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", method), slog.String("code", code.String()), slog.Duration("took", took),
	}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	s.log.LogAttrs(ctx, level, "call", attrs...)
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.DefaultTimeout)
		defer cancel()
	}
	var resp any
	err := s.call(ctx, info.FullMethod, false, func() (err error) {
		if err := checkUTF8(req); err != nil {
			return err
		}
		resp, err = handler(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(ss.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.draining, func() { cancel(errDraining) })()
	open := s.metrics.streams.WithLabelValues(info.FullMethod)
	open.Inc()
	defer open.Dec()
	return s.call(ctx, info.FullMethod, true, func() error {
		err := handler(srv, &serverStream{ServerStream: ss, ctx: ctx})
		if err != nil && context.Cause(ctx) == errDraining && apierr.Code(err) == codes.Canceled {
			return errDraining // the client did not cancel and may reconnect at once
		}
		return err
	})
}

// errDraining is the error of streams that end because the server stops.
var errDraining = apierr.Unavailable("the server is shutting down", time.Second)

// serverStream is a stream with a context that the server can cancel. It checks received messages.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream carries its context by design of gRPC
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkUTF8(m)
}
