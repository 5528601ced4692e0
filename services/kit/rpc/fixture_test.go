package rpc_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// text is a message with the methods that protoc-gen-go-vtproto generates. Like the generated
// methods, they do not validate strings.
type text struct{ *wrapperspb.StringValue }

func newText(s string) *text { return &text{wrapperspb.String(s)} }

func (m *text) Reset() { m.StringValue = &wrapperspb.StringValue{} }

func (m *text) SizeVT() int {
	if m.Value == "" {
		return 0
	}
	return protowire.SizeTag(1) + protowire.SizeBytes(len(m.Value))
}

func (m *text) MarshalToSizedBufferVT(buf []byte) (int, error) {
	if m.Value == "fail" {
		return 0, errors.New("told to fail")
	}
	if m.Value == "" {
		return 0, nil
	}
	out := protowire.AppendTag(buf[:0], 1, protowire.BytesType)
	return len(protowire.AppendString(out, m.Value)), nil
}

func (m *text) UnmarshalVT(data []byte) error {
	for len(data) > 0 {
		_, _, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		v, k := protowire.ConsumeBytes(data[n:])
		if k < 0 {
			return protowire.ParseError(k)
		}
		m.Value = string(v)
		data = data[n+k:]
	}
	return nil
}

// echo is a service with a unary call and a stream, which the test implements.
type echo struct {
	unary  func(ctx context.Context, req *text) (*text, error)
	stream func(ss grpc.ServerStream) error
	read   atomic.Int64 // number of unary calls for which gRPC began to read the message
}

const (
	unaryMethod  = "/portolan.test.v1.EchoService/Echo"
	streamMethod = "/portolan.test.v1.EchoService/Watch"
)

func (e *echo) register(s grpc.ServiceRegistrar) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "portolan.test.v1.EchoService",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(srv any, ctx context.Context, dec func(any) error, with grpc.UnaryServerInterceptor) (any, error) {
			e.read.Add(1)
			req := newText("")
			if err := dec(req); err != nil {
				return nil, err
			}
			return with(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: unaryMethod},
				func(ctx context.Context, req any) (any, error) { return e.unary(ctx, req.(*text)) })
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, ClientStreams: true, Handler: func(_ any, ss grpc.ServerStream) error {
			return e.stream(ss)
		}}},
	}, e)
}

// fixture is a running server with the echo service.
type fixture struct {
	metrics *prometheus.Registry
	health  *health.Registry
	conn    *grpc.ClientConn
	stop    func() // cancels the server's context and waits for its end
}

func serve(t *testing.T, e *echo, change func(*rpc.ServerOptions)) *fixture {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	f := serveEcho(t, e, lis, change)
	conn, err := rpc.TCP().Dial("passthrough:///echo", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f.conn = conn
	return f
}

// serveEcho serves e on lis. The fixture has no connection.
func serveEcho(t *testing.T, e *echo, lis net.Listener, change func(*rpc.ServerOptions)) *fixture {
	t.Helper()
	log := kittest.Logger(t)
	f := &fixture{metrics: obs.NewMetrics(), health: health.New(log)}
	o := rpc.ServerOptions{Log: log, Metrics: f.metrics, Health: f.health}
	if change != nil {
		change(&o)
	}
	srv := rpc.NewServer(o)
	e.register(srv)
	f.stop = kittest.Run(t, "server", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	return f
}

func (f *fixture) call(ctx context.Context, req string) (string, error) {
	resp := newText("")
	err := f.conn.Invoke(ctx, unaryMethod, newText(req), resp)
	return resp.Value, err
}

func (f *fixture) open(ctx context.Context, t *testing.T) grpc.ClientStream {
	t.Helper()
	cs, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// mustOpen opens a stream and waits for its first message.
func (f *fixture) mustOpen(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := f.open(ctx, t).RecvMsg(newText("")); err != nil {
		t.Fatal(err)
	}
}
