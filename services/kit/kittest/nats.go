package kittest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
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

// versionInGreeting matches the version in an INFO line of a NATS server.
var versionInGreeting = regexp.MustCompile(`"version":"[^"]*"`)

// NATSOfVersion returns the URL of a server that passes everything on to the NATS server at url, but says
// that it is of another version.
func NATSOfVersion(t testing.TB, url, version string) string {
	t.Helper()
	lis := Listen(t)
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	open.Go(func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			open.Go(func() { passOn(client, strings.TrimPrefix(url, "nats://"), version) })
		}
	})
	t.Cleanup(func() { lis.Close() })
	return "nats://" + lis.Addr().String()
}

// passOn connects a client with a server until one of them ends the connection.
func passOn(client net.Conn, addr, version string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, client) // the end of the connection is no error here
	})
	copyAnswers(client, server, fmt.Sprintf("%q:%q", "version", version))
	client.Close()
	both.Wait()
}

// copyAnswers copies what a NATS server sends, with another version in each INFO line. A server sends such a
// line first, and again when its state has changed.
func copyAnswers(client io.Writer, server io.Reader, version string) {
	for answers := bufio.NewReader(server); ; {
		line, err := answers.ReadString('\n')
		if strings.HasPrefix(line, "INFO {") {
			line = versionInGreeting.ReplaceAllLiteralString(line, version)
		}
		if _, writeErr := io.WriteString(client, line); err != nil || writeErr != nil {
			return
		}
	}
}
