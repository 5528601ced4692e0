package certs_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// natsServer runs a stock server with the configuration of the folder.
func natsServer(t *testing.T, dir string, folder *certs.Folder, nodes ...string) *server.Server {
	t.Helper()
	text, err := folder.NATSConfig(certs.NATSOptions{Prefix: changes.DefaultPrefix, Path: dir, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return runNATS(t, text)
}

// runNATS runs a stock server with a configuration.
func runNATS(t *testing.T, text string) *server.Server {
	t.Helper()
	store := t.TempDir()
	path := filepath.Join(store, "nats.conf")
	if err := os.WriteFile(path, []byte(text+fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\n", filepath.Join(store, "js"))), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	options.NoLog, options.NoSigs = true, true
	srv, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { kittest.StopNATS(srv) })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("nats does not start")
	}
	return srv
}

func connect(t *testing.T, srv *server.Server, source *identity.Source, options ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), append(options, nats.Secure(source.TLS(identity.NATS)), nats.Timeout(time.Minute))...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// allowed reports whether the server allows an operation. The server answers in order, so its error
// about a subject arrives before the answer to Flush.
func allowed(t *testing.T, srv *server.Server, source *identity.Source, use func(*nats.Conn) error) bool {
	t.Helper()
	nc, err := connect(t, srv, source)
	if err != nil {
		t.Fatal(err)
	}
	if err := use(nc); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	refusal := nc.LastError()
	if refusal != nil && !strings.Contains(strings.ToLower(refusal.Error()), "permissions violation") {
		t.Fatal(refusal)
	}
	return refusal == nil
}

// TestRolesOnNATS tries every subject as every role, to publish and to subscribe, on a server with
// the configuration that certs nats-config prints.
func TestRolesOnNATS(t *testing.T) {
	who := []string{"registry", "allocator", "endpointctl", "lbctl", "dnssvc", "edge/n1", "registrar/n1", "registrar/n1/shop", "nodeagent/n1", "nodeagent/n2.example.com"}
	dir, folder := initialise(t, append(who, "nats")...)
	srv := natsServer(t, dir, folder)
	followers := who[1:]
	for subject, may := range map[string]struct{ publish, subscribe []string }{
		"portolan.chg.Service.default.web":       {publish: []string{"registry"}},
		"portolan.chg.>":                         {},
		"portolan.rep.head":                      {publish: []string{"registry"}, subscribe: followers},
		"portolan.rep.chg.Service.default.web":   {subscribe: followers},
		"portolan.rep.>":                         {subscribe: followers},
		"portolan.hb.n1":                         {publish: []string{"nodeagent/n1"}, subscribe: []string{"registry", "endpointctl"}},
		"portolan.hb.n2=2Eexample=2Ecom":         {publish: []string{"nodeagent/n2.example.com"}, subscribe: []string{"registry", "endpointctl"}},
		"portolan.hb.*":                          {subscribe: []string{"registry", "endpointctl"}},
		"_INBOX_portolan_registry.abc.1":         {subscribe: []string{"registry"}},
		"_INBOX.abc":                             {},
		"$JS.API.STREAM.INFO.portolan_CHG":       {publish: []string{"registry"}},
		"$JS.API.STREAM.CREATE.portolan_CHG":     {publish: []string{"registry"}},
		"$JS.API.STREAM.MSG.DELETE.portolan_CHG": {},
		"$JS.API.STREAM.DELETE.other":            {},
		"$JS.API.DIRECT.GET.portolan_CHG":        {publish: []string{"registry"}},
		"$JS.API.CONSUMER.CREATE.portolan_CHG":   {},
		"$JS.API.STREAM.NAMES":                   {},
		"other":                                  {},
		">":                                      {},
	} {
		for _, name := range who {
			id, err := identity.ParsePath(identity.DefaultTrustDomain, name)
			if err != nil {
				t.Fatal(err)
			}
			source := open(t, filesIn(dir, id.FileName()))
			if !strings.ContainsAny(subject, "*>") {
				got := allowed(t, srv, source, func(nc *nats.Conn) error { return nc.Publish(subject, nil) })
				if want := slices.Contains(may.publish, name); got != want {
					t.Errorf("%s publishes %s: %v, want %v", name, subject, got, want)
				}
			}
			got := allowed(t, srv, source, func(nc *nats.Conn) error { _, err := nc.SubscribeSync(subject); return err })
			if want := slices.Contains(may.subscribe, name); got != want {
				t.Errorf("%s subscribes to %s: %v, want %v", name, subject, got, want)
			}
		}
	}
}

// TestStrangersOnNATS checks that a client without a certificate of a role that uses NATS cannot
// connect.
func TestStrangersOnNATS(t *testing.T) {
	dir, folder := initialise(t, "nats", "registry", "operator", "viewer")
	elsewhere, _ := initialise(t, "registry")
	srv := natsServer(t, dir, folder, "n7")
	for _, base := range []string{"operator", "viewer", "nats"} {
		if _, err := connect(t, srv, open(t, filesIn(dir, base))); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
			t.Errorf("%s: %v", base, err)
		}
	}
	// A registry of another authority that trusts this server.
	files := filesIn(elsewhere, "registry")
	bundle := filepath.Join(t.TempDir(), "both.crt")
	var both []byte
	for _, ca := range []string{files.CA, filepath.Join(dir, "ca.crt")} {
		data, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, data...)
	}
	if err := os.WriteFile(bundle, both, 0o600); err != nil {
		t.Fatal(err)
	}
	files.CA = bundle
	if _, err := connect(t, srv, open(t, files)); err == nil {
		t.Error("another authority's registry got in")
	}
	if nc, err := nats.Connect(srv.ClientURL()); err == nil {
		nc.Close()
		t.Error("a client without a certificate got in")
	}
	// Agents without a certificate in this folder are allowed by name.
	if _, err := folder.Issue(requests("nodeagent/n7", "nodeagent/n8"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, srv, open(t, filesIn(dir, "nodeagent-n7"))); err != nil {
		t.Errorf("n7: %v", err)
	}
	if _, err := connect(t, srv, open(t, filesIn(dir, "nodeagent-n8"))); err == nil {
		t.Error("n8, which the server was not told of, got in")
	}
}

// TestRoutesOfAClusterAreServersOnly forms a cluster with the configuration that nats-config prints, and
// tries to open a route to it with every certificate of the folder. Only natsroute opens one.
func TestRoutesOfAClusterAreServersOnly(t *testing.T) {
	names := []string{"registry", "nats", "operator", "nodeagent/n1", "workload/n1", "registrar/n1"}
	dir, folder := initialise(t, names...)
	if _, err := folder.Issue([]certs.Request{{Role: "natsroute", Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}}, false); err != nil {
		t.Fatal(err)
	}
	config := func(name string, routes ...string) string {
		text, err := folder.NATSConfig(certs.NATSOptions{Prefix: changes.DefaultPrefix, Path: dir, Cluster: certs.NATSCluster{
			Listen: "127.0.0.1:-1", Routes: append(routes, "127.0.0.1:1"), // no server listens there
		}})
		if err != nil {
			t.Fatal(err)
		}
		return text + "server_name: " + name + "\n"
	}
	first := runNATS(t, config("first"))
	at := first.ClusterAddr().String()
	second := runNATS(t, config("second", at))
	kittest.Eventually(t, "the route between the servers", func() error {
		if first.NumRoutes() == 0 || second.NumRoutes() == 0 {
			return fmt.Errorf("%d and %d routes", first.NumRoutes(), second.NumRoutes())
		}
		return nil
	})
	for _, name := range names {
		if err := openRoute(t, at, filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))); err == nil {
			t.Errorf("the certificate of %s opened a route", name)
		}
	}
	if err := openRoute(t, at, filepath.Join(dir, "natsroute")); err != nil {
		t.Errorf("the certificate for routes: %v", err)
	}
}

// openRoute opens a route as a NATS server does, with the certificate and key at base.crt and base.key.
// It returns nil if the other server answers on the route.
func openRoute(t *testing.T, at, base string) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(base+".crt", base+".key")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}
	secured, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", at, config)
	if err != nil {
		return err
	}
	defer func() { _ = secured.Close() }()
	if err := secured.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(secured, "CONNECT {\"verbose\":false,\"name\":\"rogue\",\"cluster\":\"portolan\"}\r\nPING\r\n"); err != nil {
		return err
	}
	answers := bufio.NewScanner(secured)
	for answers.Scan() {
		switch line := answers.Text(); {
		case strings.HasPrefix(line, "-ERR"):
			return errors.New(line)
		case line == "PONG":
			return nil
		}
	}
	return fmt.Errorf("closed: %w", answers.Err())
}
