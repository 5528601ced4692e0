package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

// TestOtherCertificatesOpenNoRoute starts NATS servers that want to join the cluster of a server with
// the printed configuration, each with the certificate of another role for its routes. A server of
// the cluster could publish every change. Only the server with the certificate for routes may join.
func TestOtherCertificatesOpenNoRoute(t *testing.T) {
	labtest.Need(t)
	labtest.NewNetwork(t) // for the loopback device
	dir := t.TempDir()
	var requests []certs.Request
	for _, who := range []string{"registry", "nats", "operator", "nodeagent/n1", "workload/n1", "registrar/n1"} {
		requests = append(requests, certs.Request{Role: who, Lifetime: time.Hour, Hosts: []string{"127.0.0.1"}})
	}
	if _, err := certs.Init(dir, identity.DefaultTrustDomain, time.Hour, requests, false); err != nil {
		t.Fatal(err)
	}
	config, err := labtest.NATSClusterConfig(dir, dir, nil, "127.0.0.1:-1", []string{"127.0.0.1:1"}) // no server listens there
	if err != nil {
		t.Fatal(err)
	}
	cluster := startNATS(t, "cluster", config, nil)
	// The intruder verifies nothing itself.
	config = strings.NewReplacer("nats://127.0.0.1:1", "nats://"+cluster.ClusterAddr().String()).Replace(config)
	for _, request := range requests {
		base := filepath.Join(dir, strings.ReplaceAll(request.Role, "/", "-"))
		own := strings.NewReplacer(filepath.Join(dir, "natsroute"), base, "verify_and_map: true\n  }\n}", "insecure: true\n  }\n}").Replace(config)
		var refusals refusedRoutes
		intruder := startNATS(t, "intruder", own, &refusals)
		kittest.Eventually(t, "the refusal of the route of "+request.Role, func() error {
			if n := refusals.Load(); n < 2 {
				return fmt.Errorf("%d refusals", n)
			}
			return nil
		})
		if intruder.NumRoutes()+cluster.NumRoutes() > 0 {
			t.Errorf("the server with the certificate of %s is part of the cluster", request.Role)
		}
		kittest.StopNATS(intruder)
	}
	second := startNATS(t, "second", config, nil)
	kittest.Eventually(t, "the route of the server with the certificate for routes", func() error {
		if cluster.NumRoutes() == 0 || second.NumRoutes() == 0 {
			return fmt.Errorf("%d and %d routes", cluster.NumRoutes(), second.NumRoutes())
		}
		return nil
	})
}

// startNATS starts a stock server that runs until the test ends. log may be nil.
func startNATS(t *testing.T, name, config string, log server.Logger) *server.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(config+"server_name: "+name+"\nlisten: \"127.0.0.1:-1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	options.NoLog, options.NoSigs = log == nil, true
	nats, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	if log != nil {
		nats.SetLoggerV2(log, true, false, false)
	}
	nats.Start()
	t.Cleanup(func() { kittest.StopNATS(nats) })
	if !nats.ReadyForConnections(time.Minute) {
		t.Fatal("nats does not start")
	}
	return nats
}

// refusedRoutes counts the routes that the other server closed.
type refusedRoutes struct{ atomic.Int64 }

func (r *refusedRoutes) see(format string, args []any) {
	text := fmt.Sprintf(format, args...)
	if strings.Contains(text, "rid:") && (strings.Contains(text, "tls: ") || strings.Contains(text, "connection closed")) {
		r.Add(1)
	}
}

// Noticef implements server.Logger.
func (r *refusedRoutes) Noticef(format string, v ...any) { r.see(format, v) }

// Warnf implements server.Logger.
func (r *refusedRoutes) Warnf(format string, v ...any) { r.see(format, v) }

// Fatalf implements server.Logger.
func (r *refusedRoutes) Fatalf(format string, v ...any) { r.see(format, v) }

// Errorf implements server.Logger.
func (r *refusedRoutes) Errorf(format string, v ...any) { r.see(format, v) }

// Debugf implements server.Logger.
func (r *refusedRoutes) Debugf(format string, v ...any) { r.see(format, v) }

// Tracef implements server.Logger.
func (r *refusedRoutes) Tracef(format string, v ...any) { r.see(format, v) }
