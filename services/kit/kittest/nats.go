package kittest

import (
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// NATS starts a NATS server with JetStream on a port of its own and returns it
// with its URL.
func NATS(t testing.TB) (*server.Server, string) {
	t.Helper()
	return NATSAt(t, t.TempDir(), server.RANDOM_PORT)
}

// NATSAt starts a NATS server that keeps its streams in dir, for tests that stop
// a server and start it again: give the port of the one that was stopped.
func NATSAt(t testing.TB, dir string, port int) (*server.Server, string) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port,
		JetStream: true, StoreDir: dir,
		NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatalf("nats server: %v", err)
	}
	srv.Start()
	t.Cleanup(func() { StopNATS(srv) })
	if !srv.ReadyForConnections(patience) {
		t.Fatalf("nats server is not ready after %s", patience)
	}
	return srv, srv.ClientURL()
}

// StopNATS stops a server and waits until it is gone.
func StopNATS(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// NATSConn connects to url, reconnecting for ever, until the test ends.
func NATSConn(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.Name(t.Name()))
	if err != nil {
		t.Fatalf("connect to nats: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// natsFor is the NATS function of a host.
func natsFor(url string) func(string) (*nats.Conn, error) {
	return func(name string) (*nats.Conn, error) {
		if url == "" {
			return nil, errors.New("this test has no nats server")
		}
		return nats.Connect(url, nats.Name(name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	}
}
