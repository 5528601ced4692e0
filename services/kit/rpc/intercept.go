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

// call runs one handler with everything that is common to unary calls and
// streams, so that neither can lack a part.
func (s *Server) call(ctx context.Context, method string, stream bool, handler func() error) error {
	start := time.Now()
	err := s.admit(ctx, method)
	if err == nil {
		err = s.recovered(method, handler)
	}
	st := apierr.ToStatus(err)
	took := time.Since(start)
	s.metrics.done(method, stream, st.Code(), took)
	s.logCall(ctx, method, st.Code(), took, err)
	return st.Err()
}

// admit says whether the caller may make a call.
func (s *Server) admit(ctx context.Context, method string) error {
	if s.opts.Identity == nil {
		return nil
	}
	return s.opts.Access.Admit(ctx, method)
}

// recovered turns a panic of the handler into an internal error.
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

// logCall logs our own faults as errors and everything else for debugging only:
// what a client does wrong is the client's to read.
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
			return errDraining // the client did not cancel: it may come back at once
		}
		return err
	})
}

// errDraining is how streams end when the server stops.
var errDraining = apierr.Unavailable("the server is shutting down", time.Second)

// serverStream has the context that the server can cancel, and checks what it
// receives.
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
