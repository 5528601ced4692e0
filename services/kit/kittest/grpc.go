package kittest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// Conn starts a gRPC server built as the daemons build it, with the services that register
// registers, and returns a client connection to it. Both are closed when the test ends, after all
// calls have ended.
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

// Listen returns a TCP listener on a free port of the loopback interface. It is closed when the
// test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() }) // an error means that the test has closed it already
	return lis
}

// Run runs a task beside the test. When the test ends, the task's context is cancelled, and the
// test fails if the task returns an error. The returned function ends the task earlier and waits
// for it.
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

// Host returns a host for a daemon under test, with the test's log and new metrics and health.
// natsURL is the URL of a NATS server, or "" for none.
func Host(t testing.TB, network rpc.Network, natsURL string) app.Host {
	t.Helper()
	log, metrics, checks := Logger(t), obs.NewMetrics(), health.New(Logger(t))
	return app.Host{
		Log: log, Metrics: metrics, Health: checks, Network: network, Guard: guard.New(log, metrics, checks),
		NATS: natsFor(natsURL),
	}
}
