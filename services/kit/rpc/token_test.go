package rpc_test

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
)

// TestTokenIsRequiredOverTCP calls a server with a token over TCP and over a pipe of its process.
func TestTokenIsRequiredOverTCP(t *testing.T) {
	secret, err := token.Create(filepath.Join(t.TempDir(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	network := rpc.Memory()
	lis, err := network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := &echo{unary: via, stream: func(ss grpc.ServerStream) error { return ss.SendMsg(newText("")) }}
	log := kittest.Logger(t)
	server := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Token: secret})
	service.register(server)
	kittest.Run(t, "server", func(ctx context.Context) error { return server.Serve(ctx, lis) })
	for name, c := range map[string]struct {
		network rpc.Network
		options []grpc.DialOption
		want    codes.Code
	}{
		"tcp":            {rpc.TCP(), nil, codes.Unauthenticated},
		"tcp with token": {rpc.TCP(), []grpc.DialOption{grpc.WithPerRPCCredentials(secret)}, codes.OK},
		"pipe":           {network, nil, codes.OK},
	} {
		conn, err := c.network.Dial(lis.Addr().String(), c.options...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		read := service.read.Load()
		if err := conn.Invoke(t.Context(), unaryMethod, newText(""), newText("")); status.Code(err) != c.want {
			t.Errorf("%s: a call: %v, want %s", name, err, c.want)
		}
		if c.want != codes.OK && service.read.Load() != read {
			t.Errorf("%s: the message of a refused call was read", name)
		}
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod)
		if err == nil {
			err = stream.RecvMsg(newText(""))
		}
		if status.Code(err) != c.want {
			t.Errorf("%s: a stream: %v, want %s", name, err, c.want)
		}
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Errorf("%s: health: %v", name, err)
		}
	}
}

// TestMemoryNetworkPrefersPipes connects while the network begins to listen. A connection over TCP
// would have no token for all its life.
func TestMemoryNetworkPrefersPipes(t *testing.T) {
	for range 50 {
		network := rpc.Memory()
		probe := kittest.Listen(t)
		addr := probe.Addr().String()
		_ = probe.Close()
		conn, err := network.Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Connect() // in the background
		serveOn(t, network, addr)
		answer := newText("")
		err = conn.Invoke(t.Context(), unaryMethod, newText(""), answer, grpc.WaitForReady(true))
		if err != nil || answer.Value != "bufconn" {
			t.Fatalf("connected by %q, %v", answer.Value, err)
		}
		_ = conn.Close()
	}
}
