package kittest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// Conn serves what register registers, by a server as the daemons have, and
// returns a client of it. Both end with the test; calls in flight are waited
// for.
func Conn(t testing.TB, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	log := Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)})
	register(srv)
	lis := bufconn.Listen(1 << 20)
	Run(t, "grpc server", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	conn, err := rpc.TCP().Dial("passthrough:///bufconn",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Listen opens a TCP listener on a free port of the loopback interface, closed
// when the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() }) // an error only says that the test closed it
	return lis
}

// Run runs a task beside the test. When the test ends its context ends, and
// the test fails if the task returned an error. The returned function ends it
// sooner and waits for it.
func Run(t testing.TB, name string, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.RunTasks(ctx, app.Task{Name: name, Run: run}) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// Host returns a host for a daemon under test: its log is the test's, its
// metrics and health are its own. Give it NATS by the URL of a server, or ""
// for none.
func Host(t testing.TB, network rpc.Network, natsURL string) app.Host {
	t.Helper()
	log := Logger(t)
	return app.Host{
		Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Network: network,
		NATS: natsFor(natsURL),
	}
}
