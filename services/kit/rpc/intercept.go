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
	"portolan.dev/services/kit/audit"
)

// call is a call that the server answers.
type call struct {
	method string // full name
	stream bool
	start  time.Time
	// object returns the object of the call, for the audit log. It may be nil.
	object func() audit.Object
	// operations returns the operations of the call, for the audit log. It may be nil.
	operations func() []Operation
}

// run runs the handler of a call with everything that unary calls and streams share, so that
// neither can omit a part. Server.admit has authorized the call before.
func (s *Server) run(ctx context.Context, c call, handler func() error) error {
	c.start = time.Now()
	return s.ended(ctx, c, s.recovered(c.method, handler))
}

// ended counts, logs and records a call that ended with err. It returns the error for the client.
func (s *Server) ended(ctx context.Context, c call, err error) error {
	st := apierr.ToStatus(err)
	took := time.Since(c.start)
	s.metrics.done(c.method, c.stream, st.Code(), took)
	s.logCall(ctx, c.method, st.Code(), took, err)
	s.record(ctx, c, st.Code(), took, err)
	return st.Err()
}

// recovered converts a panic of the handler to an internal error.
func (s *Server) recovered(method string, handler func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(method, p)
		}
	}()
	return handler()
}

// panicked counts and logs a panic, and returns the error for it.
func (s *Server) panicked(method string, p any) error {
	s.metrics.panics.Inc()
	s.log.Error("handler panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return apierr.Internal(fmt.Errorf("panic: %v", p))
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
	object := func() audit.Object { return s.opts.Audit.Object(info.FullMethod, req, resp) }
	c := call{method: info.FullMethod, object: object}
	if s.opts.Audit.Operations != nil {
		c.operations = func() []Operation { return s.opts.Audit.Operations(info.FullMethod, req, resp) }
	}
	err := s.run(ctx, c, func() (err error) {
		if err := checkUTF8(req); err != nil {
			return err
		}
		if resp, err = handler(ctx, req); err != nil {
			resp = nil // it may be a typed nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}
