package kittest

import (
	"errors"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// NATS starts a NATS server with JetStream on a free port. It returns the server and its URL.
func NATS(t testing.TB) (*server.Server, string) {
	t.Helper()
	return NATSAt(t, t.TempDir(), server.RANDOM_PORT)
}

// NATSAt starts a NATS server with its streams in dir, for tests that stop a server and start
// another one with the same streams. The directory is removed when the test ends.
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
	t.Cleanup(func() {
		StopNATS(srv)
		removeStreams(t, dir)
	})
	if !srv.ReadyForConnections(maxWait) {
		t.Fatalf("nats server is not ready after %s", maxWait)
	}
	return srv, srv.ClientURL()
}

// StopNATS stops a server and waits for its end.
func StopNATS(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// removeStreams removes the directory of a stopped server. JetStream has background writers that a
// stopped server does not wait for. If one of them writes during the removal, the removal fails, as
// it would in t.TempDir, and is repeated.
func removeStreams(t testing.TB, dir string) {
	t.Helper()
	Eventually(t, "the removal of "+dir, func() error { return os.RemoveAll(dir) })
}

// NATSConn connects to url until the test ends. The connection reconnects for ever.
func NATSConn(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.Name(t.Name()), nats.Timeout(maxWait))
	if err != nil {
		t.Fatalf("connect to nats: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// natsFor returns the NATS function of a host.
func natsFor(url string) func(string) (*nats.Conn, error) {
	return func(name string) (*nats.Conn, error) {
		if url == "" {
			return nil, errors.New("this test has no nats server")
		}
		return nats.Connect(url, nats.Name(name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	}
}
