package rpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(ss.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.draining, func() { cancel(errDraining) })()
	defer cancelAtExpiry(ctx, cancel)()
	defer cancelOnRevocation(ctx, cancel)()
	open := s.metrics.streams.WithLabelValues(info.FullMethod)
	open.Inc()
	defer open.Dec()
	wrapped := newServerStream(ctx, ss, s.opts.SendTimeout, info.FullMethod, s.maxRequest(info.FullMethod))
	if s.opts.Audit.Log != nil {
		wrapped.audited = &streamObject{of: s.opts.Audit.Object, method: info.FullMethod}
	}
	return s.run(ctx, call{method: info.FullMethod, stream: true, object: wrapped.audited.get}, func() error {
		release, err := s.limits.acquire(ctx)
		if err != nil {
			return err
		}
		defer release()
		return s.runStream(info.FullMethod, wrapped, cancel, func(ss grpc.ServerStream) error {
			return handler(srv, ss)
		})
	})
}

// runStream runs the handler of a stream until it returns, or until one send takes longer than
// SendTimeout. A blocked send ends only when gRPC finishes the stream, which it does when runStream
// has returned. Therefore the handler has its own goroutine, and Server.stop waits for it.
func (s *Server) runStream(method string, ss *serverStream, cancel context.CancelCauseFunc, handler func(grpc.ServerStream) error) error {
	result := make(chan error, 1)
	s.handlers.Go(func() {
		result <- s.recovered(method, func() error { return handler(ss) })
	})
	select {
	case err := <-result:
		return streamError(ss.ctx, err)
	case <-ss.unread:
		err := errUnread(ss.timeout)
		cancel(err)
		s.metrics.unread.Inc()
		// The connection keeps the last message until the client reads it. Closing the connection
		// frees the message. Until then the client can still read the error.
		time.AfterFunc(ss.timeout, func() { identity.Disconnect(ss.ctx) })
		return err
	}
}

// streamError returns the error that a client gets when the handler of its stream returned err. If
// the server canceled the stream, the client gets the reason of the server.
func streamError(ctx context.Context, err error) error {
	if err == nil || apierr.Code(err) != codes.Canceled {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// errUnread returns the error for a stream if the client did not read a message in time.
func errUnread(timeout time.Duration) error {
	return apierr.Exhausted("SendTimeout", fmt.Sprintf(
		"the client read nothing of the stream for %s, which is the limit: read faster, or open the stream when the messages are needed", timeout))
}

// errDraining is the error of streams that end because the server stops.
var errDraining = apierr.Unavailable("the server is shutting down", time.Second)

// cancelAtExpiry cancels a stream when the certificate of its caller expires. The function that it
// returns ends the wait.
func cancelAtExpiry(ctx context.Context, cancel context.CancelCauseFunc) (stop func() bool) {
	end, ok := identity.Expiry(ctx)
	if !ok {
		return func() bool { return true }
	}
	return time.AfterFunc(time.Until(end), func() {
		cancel(errExpired(end))
		disconnectRefused(ctx)
	}).Stop
}

// cancelOnRevocation cancels a stream when the certificate of its caller is revoked. The function
// that it returns ends the wait.
func cancelOnRevocation(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	return identity.OnRevoked(ctx, func(err error) {
		cancel(errRevoked(err))
		disconnectRefused(ctx)
	})
}

// serverStream is a stream with a context that the server can cancel. It checks received messages,
// and closes unread if a send takes longer than timeout.
type serverStream struct {
	grpc.ServerStream
	ctx     context.Context //nolint:containedctx // a stream carries its context by design of gRPC
	timeout time.Duration
	timer   *time.Timer // runs during a send
	unread  chan struct{}
	method  string
	limit   int           // of the size of received messages in bytes
	audited *streamObject // nil without an audit log
}

func newServerStream(ctx context.Context, ss grpc.ServerStream, timeout time.Duration, method string, limit int) *serverStream {
	s := &serverStream{ServerStream: ss, ctx: ctx, timeout: timeout, unread: make(chan struct{}), method: method, limit: limit}
	s.timer = time.AfterFunc(timeout, sync.OnceFunc(func() { close(s.unread) }))
	s.timer.Stop()
	return s
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream. It blocks while the client does not read.
func (s *serverStream) SendMsg(m any) error {
	s.audited.sent(m)
	s.timer.Reset(s.timeout)
	defer s.timer.Stop()
	return s.ServerStream.SendMsg(m)
}

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(m any) error {
	r := &request{message: m, limit: s.limit}
	if err := s.ServerStream.RecvMsg(r); err != nil {
		return err
	}
	if err := r.err(s.method); err != nil {
		return err
	}
	s.audited.received(m)
	return checkUTF8(m)
}
