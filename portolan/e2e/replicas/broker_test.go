package replicas

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"portolan.dev/services/kit/kittest"
)

// broker is a NATS server that can be stopped and started on its data, behind doors with fixed
// addresses.
type broker struct {
	t               *testing.T
	name, dir       string
	clients, routes *door
	peers           []*broker // in its cluster
	server          *server.Server
}

// brokers starts one NATS server, or a cluster of several.
func brokers(t *testing.T, n int) []*broker {
	t.Helper()
	all := make([]*broker, n)
	for i := range all {
		all[i] = &broker{t: t, name: fmt.Sprintf("nats-%d", i), dir: t.TempDir(), clients: openDoor(t), routes: openDoor(t)}
	}
	for _, b := range all {
		if n > 1 {
			b.peers = all
		}
		b.start()
		t.Cleanup(b.stop)
	}
	for _, b := range all {
		b.awaitReady()
	}
	return all
}

func natsURL(all []*broker) string {
	var urls []string
	for _, b := range all {
		urls = append(urls, "nats://"+b.clients.addr())
	}
	return strings.Join(urls, ",")
}

func (b *broker) start() {
	b.t.Helper()
	options := &server.Options{
		ServerName: b.name, Host: "127.0.0.1", Port: server.RANDOM_PORT, ClientAdvertise: b.clients.addr(),
		JetStream: true, StoreDir: b.dir, NoLog: true, NoSigs: true,
	}
	if b.peers != nil {
		options.Cluster = server.ClusterOpts{Name: "portolan", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true}
		for _, peer := range b.peers {
			if peer != b {
				options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: peer.routes.addr()})
			}
		}
	}
	srv, err := server.NewServer(options)
	if err != nil {
		b.t.Fatal(err)
	}
	srv.Start()
	b.server = srv
	if !srv.ReadyForConnections(patience) {
		b.t.Fatalf("%s is not ready after %s", b.name, patience)
	}
	b.clients.leadTo(srv.Addr().(*net.TCPAddr).String())
	if b.peers != nil {
		b.routes.leadTo(srv.ClusterAddr().String())
	}
}

// awaitReady waits until the server can take part in storing a stream.
func (b *broker) awaitReady() {
	b.t.Helper()
	kittest.Eventually(b.t, b.name+" is ready", func() error {
		if b.peers != nil && !b.server.JetStreamIsCurrent() {
			return fmt.Errorf("not current with its cluster")
		}
		return nil
	})
}

func (b *broker) stop() {
	if b.server == nil {
		return
	}
	b.clients.leadTo("")
	b.routes.leadTo("")
	kittest.StopNATS(b.server)
	b.server = nil
}
