package rpc

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/identity"
)

// Audit has the settings for the audit log of a server. Refused calls are recorded in any case.
type Audit struct {
	// Log is the log. If it is nil, no call is recorded.
	Log *audit.Log
	// Always reports whether calls of a method are recorded if they succeed too. The method has its
	// full name. Always is required if there is a log.
	Always func(method string) bool
	// Object returns the object of a call from its messages. The response is nil if the call
	// failed; of a stream, the messages are the first ones, and either may be nil. Object is
	// required if there is a log.
	Object func(method string, request, response any) audit.Object
	// Operations, if not nil, returns the operations of a bulk call. Each operation is recorded like a
	// call of its own, and the bulk call is not recorded. Operations returns nil for other calls, and
	// for calls that failed as a whole. The response is nil if the call failed.
	Operations func(method string, request, response any) []Operation
}

// Operation is a part of a call that could have been a call of its own.
type Operation struct {
	// Method is the full name of the method of that call.
	Method string
	// Object is its object.
	Object audit.Object
	// Err is its error, or nil.
	Err error
}

// isRefusal reports whether a call with the code is recorded even if it only reads. NOT_FOUND is
// among these codes, because it is also the answer for objects that the caller may not read. Codes of
// temporary errors are not, because the client has left or tries again.
func isRefusal(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.OutOfRange, codes.Aborted:
		return false
	}
	return true
}

// record adds a call to the audit log, if it is to be recorded.
func (s *Server) record(ctx context.Context, c call, code codes.Code, took time.Duration, err error) {
	if s.opts.Audit.Log == nil || !isRefusal(code) && !s.opts.Audit.Always(c.method) {
		return
	}
	e := audit.Entry{
		Time: c.start, Method: c.method, Code: codeName(code), Reason: apierr.Summary(err), Seconds: took.Seconds(),
		Serial: identity.Serial(ctx), TraceID: traceOf(ctx),
	}
	if id, err := identity.Caller(ctx); err == nil {
		e.Identity = id.Path()
	}
	if actor, ok := identity.Actor(ctx); ok {
		e.Via, e.Token = actor.Path(), identity.TokenOf(ctx)
	}
	if p, ok := peer.FromContext(ctx); ok {
		e.Peer = p.Addr.String()
	}
	if c.operations != nil {
		if operations := s.operationsOf(c); len(operations) > 0 {
			s.recordOperations(e, operations)
			return
		}
	}
	if c.object != nil {
		e.Object = s.objectOf(c)
	}
	s.opts.Audit.Log.Record(&e)
}

// recordOperations adds a line for each operation of a call. of is the entry of the call.
func (s *Server) recordOperations(of audit.Entry, operations []Operation) {
	of.Bulk = true
	for _, operation := range operations {
		code := apierr.Code(operation.Err)
		if !isRefusal(code) && !s.opts.Audit.Always(operation.Method) {
			continue
		}
		e := of
		e.Method, e.Object, e.Code, e.Reason = operation.Method, operation.Object, codeName(code), apierr.Summary(operation.Err)
		s.opts.Audit.Log.Record(&e)
	}
}

// operationsOf returns the operations of a call. It returns nil after a panic, which it counts.
func (s *Server) operationsOf(c call) (operations []Operation) {
	defer func() {
		if p := recover(); p != nil {
			_ = s.panicked(c.method, p)
		}
	}()
	return c.operations()
}

// objectOf returns the object of a call. It returns an empty object after a panic, which it counts.
func (s *Server) objectOf(c call) (o audit.Object) {
	defer func() {
		if p := recover(); p != nil {
			_ = s.panicked(c.method, p)
		}
	}()
	return c.object()
}

// codeNames are the names of the codes, so that a record does not build them.
var codeNames = func() (names [codes.Unauthenticated + 1]string) {
	for code := range names {
		names[code] = apierr.CodeName(codes.Code(code)) // a small number
	}
	return names
}()

func codeName(code codes.Code) string {
	if int(code) < len(codeNames) {
		return codeNames[code]
	}
	return apierr.CodeName(code)
}

// Positions in a traceparent of version 00: version, trace ID, span ID, flags.
const (
	traceparentLength = 55
	traceIDBegin      = 3
	traceIDEnd        = 35
)

// traceOf returns the ID of the trace that a call is part of: the server's own, or, if the server
// does not trace, the client's. It is empty if there is none.
func traceOf(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		return span.TraceID().String()
	}
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) > 0 && len(values[0]) == traceparentLength {
		return values[0][traceIDBegin:traceIDEnd]
	}
	return ""
}

// streamObject finds the object of a stream in its first messages. It keeps no message. Its methods
// are safe for concurrent use, because a stream may end while its handler still sends. A nil
// streamObject does nothing.
type streamObject struct {
	of     func(method string, request, response any) audit.Object
	method string

	mu               sync.Mutex
	object           audit.Object // guarded by mu
	hasRead, hasSent bool         // guarded by mu
}

func (o *streamObject) received(request any) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hasRead {
		o.hasRead, o.object = true, o.of(o.method, request, nil)
	}
}

func (o *streamObject) sent(response any) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hasSent {
		o.hasSent, o.object.Revision = true, o.of(o.method, nil, response).Revision
	}
}

func (o *streamObject) get() audit.Object {
	if o == nil {
		return audit.Object{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.object
}
