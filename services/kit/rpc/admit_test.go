package rpc_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// registryOnly is an authorizer that admits calls of the role registry.
type registryOnly struct{}

func (registryOnly) CheckComplete(map[string]grpc.ServiceInfo) error { return nil }

func (registryOnly) Authorize(ctx context.Context, _ string) error {
	if id, err := identity.Caller(ctx); err != nil || id.Role != identity.Registry {
		return apierr.PermissionDenied("only the registry may call")
	}
	return nil
}

// secured is a running server with mutual TLS.
type secured struct {
	t     testing.TB
	certs *kittest.Certificates
	lis   net.Listener
	*fixture
}

// serveTLS serves e with mutual TLS over TCP. The fixture's connection has a certificate of the role
// and name in who, such as nodeagent/n1.
func serveTLS(t *testing.T, e *echo, who string, lifetime time.Duration, change func(*rpc.ServerOptions)) *secured {
	t.Helper()
	s := &secured{t: t, certs: kittest.NewCertificates(t), lis: kittest.Listen(t)}
	s.fixture = serveEcho(t, e, s.lis, func(o *rpc.ServerOptions) {
		o.Identity, o.Authorizer = s.certs.Source("allocator"), registryOnly{}
		if change != nil {
			change(o)
		}
	})
	s.conn = s.dial(who, lifetime)
	return s
}

func (s *secured) dial(who string, lifetime time.Duration, opts ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	source, err := identity.Open(identity.Options{Files: s.certs.Issue(who, lifetime), Log: kittest.Logger(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := rpc.TCP().Dial(s.lis.Addr().String(), append(opts, source.DialOption(identity.Allocator))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestRefusedMessagesAreNotRead sends messages of 4 MiB that the role may not send. The server must
// not begin to read them. The attacks in portolan/e2e measure the memory of a real registry.
func TestRefusedMessagesAreNotRead(t *testing.T) {
	e := &echo{unary: same}
	f := serveTLS(t, e, "viewer", time.Hour, nil)
	req := newText(strings.Repeat("x", rpc.DefaultMaxMessage-100))
	for range 5 {
		err := f.conn.Invoke(t.Context(), unaryMethod, req, newText(""))
		if status.Code(err) != codes.PermissionDenied || apierr.ReasonOf(err) == "" {
			t.Fatal(err)
		}
	}
	if n := e.read.Load(); n != 0 {
		t.Errorf("%d refused messages were read", n)
	}
}

// TestUnknownMethodsAreUnimplemented checks that callers without any permission still learn that a
// method does not exist.
func TestUnknownMethodsAreUnimplemented(t *testing.T) {
	f := serveTLS(t, &echo{unary: same}, "viewer", time.Hour, nil)
	if err := f.conn.Invoke(t.Context(), "/portolan.test.v1.EchoService/Other", newText(""), newText("")); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v", err)
	}
}

// TestExpiryEndsCallsAndStreams keeps a connection and a stream open until the certificate of the
// client expires.
func TestExpiryEndsCallsAndStreams(t *testing.T) {
	f := serveTLS(t, &echo{unary: same, stream: func(ss grpc.ServerStream) error {
		<-ss.Context().Done()
		return ss.Context().Err()
	}}, "registry", 2*time.Second, nil)
	if _, err := f.call(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"the stream": f.open(t.Context(), t).RecvMsg(newText("")),
		"a call":     f.conn.Invoke(t.Context(), unaryMethod, newText("x"), newText("")),
	} {
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "certificate expired at") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestUnreadStreamsEnd does not read a stream. The handler must be released, and the connection
// must end, because gRPC keeps the last message for as long as it lasts.
func TestUnreadStreamsEnd(t *testing.T) {
	released, big := make(chan error, 1), newText(strings.Repeat("x", 1<<20))
	f := serveTLS(t, &echo{unary: same, stream: func(ss grpc.ServerStream) error {
		for {
			if err := ss.SendMsg(big); err != nil {
				released <- err
				return err
			}
		}
	}}, "registry", time.Hour, func(o *rpc.ServerOptions) { o.SendTimeout = 500 * time.Millisecond })
	cs := f.open(t.Context(), t)
	kittest.Receive(t, "the end of the handler", released)
	var err error
	for err == nil {
		err = cs.RecvMsg(newText(""))
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "500ms, which is the limit") {
		t.Errorf("a client that reads again gets %v", err)
	}
	state := f.conn.GetState()
	if !f.conn.WaitForStateChange(t.Context(), state) {
		t.Error("the connection was not closed")
	}
}

// TestStreamsAreLimited opens more streams than an identity and the server may have.
func TestStreamsAreLimited(t *testing.T) {
	f := serveTLS(t, &echo{unary: same, stream: func(ss grpc.ServerStream) error {
		if err := ss.SendMsg(newText("open")); err != nil {
			return err
		}
		<-ss.Context().Done()
		return ss.Context().Err()
	}}, "registry", time.Hour, func(o *rpc.ServerOptions) { o.MaxStreams, o.MaxStreamsPerIdentity = 3, 2 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.mustOpen(ctx, t)
	f.conn = f.dial("registry", time.Hour) // the limit is of the identity, not of the connection
	f.mustOpen(ctx, t)
	err := f.open(ctx, t).RecvMsg(newText(""))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "has 2 streams open") {
		t.Errorf("the third stream of an identity: %v", err)
	}
	cancel()
	kittest.Eventually(t, "a stream after the others ended", func() error {
		err := f.open(t.Context(), t).RecvMsg(newText(""))
		if status.Code(err) == codes.ResourceExhausted {
			return err
		}
		if err != nil {
			t.Error(err)
		}
		return nil
	})
}

// TestStreamsAreLimitedInAll opens more streams than a server without identity may have.
func TestStreamsAreLimitedInAll(t *testing.T) {
	f := serve(t, &echo{stream: func(ss grpc.ServerStream) error {
		if err := ss.SendMsg(newText("open")); err != nil {
			return err
		}
		<-ss.Context().Done()
		return ss.Context().Err()
	}}, func(o *rpc.ServerOptions) { o.MaxStreams = 2 })
	f.mustOpen(t.Context(), t)
	f.mustOpen(t.Context(), t)
	err := f.open(t.Context(), t).RecvMsg(newText(""))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "2 streams are open") {
		t.Errorf("the third stream: %v", err)
	}
}
