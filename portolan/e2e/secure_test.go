package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"portolan.dev/allocator"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/dnssvc"
	"portolan.dev/endpointctl"
	"portolan.dev/lbctl"
	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/program"
	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/registry"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// secured is an installation set up as the documents describe: certificates by portolan certs, a
// stock NATS server with the configuration that portolan certs prints, and daemons that have only
// their own certificate.
type secured struct {
	*installation
	certs string
	nats  string
	log   journal
}

// journal collects the logs of the daemons.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(j.text.String(), "\n")
}

func secure(t *testing.T) *secured {
	t.Helper()
	s := &secured{installation: &installation{T: t, network: loopbacktest.Claim(t)}, certs: filepath.Join(t.TempDir(), "certs")}
	s.command("certs", "init", "--certs", s.certs, "--node", "n1")
	s.startNATS(s.command("certs", "nats-config", "--certs", s.certs))
	services, pods := netip.MustParsePrefix(s.network.Services()), netip.MustParsePrefix(s.network.Pods())

	var ac allocator.Config
	config.Defaults(&ac)
	ac.Common, ac.Registry, ac.DataDir, ac.ServiceCIDR, ac.PodCIDR = s.common("allocator", 7401), s.api(7400), t.TempDir(), []netip.Prefix{services}, []netip.Prefix{pods}
	ac.LoadBalancerPool = []netip.Prefix{netip.MustParsePrefix(s.network.Balancers())}
	runSecured(s, "allocator", ac, ac.Common, allocator.New)

	var rc registry.Config
	config.Defaults(&rc)
	rc.Common, rc.Store, rc.Allocator, rc.ServiceCIDR = s.common("registry", 7400), "sqlite:"+t.TempDir(), s.api(7401), []netip.Prefix{services}
	rc.PodCIDR, rc.LoopbackEndpoints = []netip.Prefix{pods}, []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(s.network.Bind()), 32)}
	runSecured(s, "registry", rc, rc.Common, registry.New)

	var ec endpointctl.Config
	config.Defaults(&ec)
	ec.Common, ec.Registry = s.common("endpointctl", 7402), s.api(7400)
	runSecured(s, "endpointctl", ec, ec.Common, endpointctl.New)

	var lc lbctl.Config
	config.Defaults(&lc)
	lc.Common, lc.Registry, lc.Allocator = s.common("lbctl", 7406), s.api(7400), s.api(7401)
	runSecured(s, "lbctl", lc, lc.Common, lbctl.New)

	var dc dnssvc.Config
	config.Defaults(&dc)
	dc.Common, dc.Registry, dc.Listen, dc.LameDuck = s.common("dnssvc", 7403), s.api(7400), []string{s.network.DNS()}, 0
	dc.ServiceCIDR, dc.PodCIDR = []netip.Prefix{services}, []netip.Prefix{pods}
	runSecured(s, "dnssvc", dc, dc.Common, dnssvc.New)

	var nc nodeagent.Config
	config.Defaults(&nc)
	nc.Common, nc.Registry, nc.NodeAddresses = s.common("nodeagent-n1", 7404), s.api(7400), []string{s.network.Bind()}
	nc.ProxyMode, nc.PodCIDR, nc.HeartbeatInterval = "userspace", []netip.Prefix{pods}, 100*time.Millisecond
	runSecured(s, "nodeagent", nc, nc.Common, program.New)
	t.Setenv("PORTOLAN_CERTS", s.certs)
	return s
}

// command runs a command that needs no installation.
func (s *secured) command(args ...string) string {
	s.Helper()
	out, errOut, err := runProgram(s.T, "", filepath.Join(bin, "portolan"), args...)
	if err != nil {
		s.Fatalf("portolan %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return out
}

func (s *secured) startNATS(text string) {
	s.Helper()
	dir := natsDir(s.T)
	path := filepath.Join(dir, "nats.conf")
	text += fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\n", filepath.Join(dir, "js"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		s.Fatal(err)
	}
	s.nats = serveNATS(s.T, options).ClientURL()
}

// natsDir returns a folder for a NATS server, which still writes for a moment after it was stopped.
func natsDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "portolan-nats-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kittest.Eventually(t, "the removal of "+dir, func() error { return os.RemoveAll(dir) }) })
	return dir
}

// serveNATS runs a NATS server until the test ends.
func serveNATS(t *testing.T, options *server.Options) *server.Server {
	t.Helper()
	options.NoLog, options.NoSigs = true, true
	srv, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { kittest.StopNATS(srv) })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("nats does not start")
	}
	return srv
}

// common returns the settings of a daemon, with its certificate in the given file.
func (s *secured) common(file string, port int) daemon.Common {
	var common daemon.Common
	config.Defaults(&common)
	common.Addr, common.HTTPAddr, common.NATSURL = s.api(port), s.api(port+100), s.nats
	common.TLS = daemon.TLS{
		TLSCert: filepath.Join(s.certs, file+".crt"), TLSKey: filepath.Join(s.certs, file+".key"), TLSCA: filepath.Join(s.certs, "ca.crt"),
	}
	return common
}

// runSecured runs a daemon as its own main function would.
func runSecured[C any, D app.Daemon](s *secured, name string, cfg C, common daemon.Common, build func(context.Context, C, app.Host) (D, error)) {
	s.Helper()
	host := kittest.Host(s.T, rpc.TCP(), "")
	host.Log = slog.New(slog.NewMultiHandler(host.Log.Handler(), slog.NewTextHandler(&s.log, nil))).With("daemon", name)
	source, err := common.Identity(identity.Options{Role: identity.Role(name), Log: host.Log, Metrics: host.Metrics, Health: host.Health})
	if err != nil {
		s.Fatal(err)
	}
	host.Identity, host.NATS = source, daemon.NATS(name, common, host.Log, source)
	d, err := build(s.Context(), cfg, host)
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	kittest.Run(s.T, name, d.Run)
}

// explained waits until a service works from end to end.
func (s *secured) explained(name string) {
	s.Helper()
	kittest.Eventually(s.T, "service "+name, func() error {
		out, errOut, err := s.try("", "explain", "service", name)
		if err != nil {
			return fmt.Errorf("%w\n%s%s", err, out, errOut)
		}
		return nil
	})
}

// balanced has lbctl give a service an address, and take it back, with the rights of its role only.
func (s *secured) balanced() {
	s.Helper()
	s.apply(`{apiVersion: v1, kind: Service, metadata: {name: edge}, spec: {type: LoadBalancer, ports: [{port: 8081}]}}`)
	kittest.Eventually(s.T, "the address of a load balancer", func() error {
		if out := s.portolan("get", "service", "edge"); !strings.Contains(out, strings.TrimSuffix(s.network.Balancers(), "0/24")) {
			return errors.New(out)
		}
		return nil
	})
	s.portolan("delete", "service", "edge")
	kittest.Eventually(s.T, "the end of the service", func() error {
		if out, _, err := s.try("", "get", "service", "edge"); err == nil {
			return errors.New(out)
		}
		return nil
	})
}

// givenBack has an update give back a node port, which another service gets at once.
func (s *secured) givenBack() {
	s.Helper()
	const port = 30123
	withPort := func(name string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {type: NodePort, ports: [{port: 8082, nodePort: %d}]}}`, name, port)
	}
	s.apply(withPort("former"))
	s.apply(`{apiVersion: v1, kind: Service, metadata: {name: former}, spec: {type: ClusterIP, ports: [{port: 8082}]}}`)
	s.apply(withPort("next"))
	s.portolan("delete", "service", "former", "next")
}

// settingsKnown reads settings of the installation, one of which the registry has from the allocator.
func (s *secured) settingsKnown() {
	s.Helper()
	files := identity.Files{Cert: filepath.Join(s.certs, "viewer.crt"), Key: filepath.Join(s.certs, "viewer.key"), CA: filepath.Join(s.certs, "ca.crt")}
	source, err := identity.Open(identity.Options{Files: files, Log: kittest.Logger(s.T)})
	if err != nil {
		s.Fatal(err)
	}
	conn, err := rpc.TCP().Dial(s.api(7400), source.DialOption(identity.Registry))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	settings, err := registryv1.NewDiscoveryServiceClient(conn).GetSettings(s.Context(), &registryv1.GetSettingsRequest{})
	if err != nil || settings.GetNodePortRange() != "30000-32767" {
		s.Errorf("the range of node ports is %q, %v", settings.GetNodePortRange(), err)
	}
}

// backedUp takes a backup with the certificate of an operator.
func (s *secured) backedUp() {
	s.Helper()
	file := filepath.Join(s.TempDir(), "backup")
	s.portolan("export", "-f", file)
	if info, err := os.Stat(file); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
		s.Errorf("the backup: %v, %v", info, err)
	}
	if _, errOut, err := s.try("", "import", "-f", file); err == nil || !strings.Contains(errOut, "the registry is not empty") {
		s.Errorf("an import into a registry with objects: %v\n%s", err, errOut)
	}
}

// TestSecuredInstallation checks that everything works with certificates everywhere and with each
// role's rights only: a service is registered, gets its address and its name, its backends become
// ready, and traffic reaches them. No daemon's request is refused, and requests without the right
// are.
func TestSecuredInstallation(t *testing.T) {
	s := secure(t)
	s.apply(strings.ReplaceAll(firstService, "port: 80\n", "port: 8080\n"))
	s.backend("one", "--node", "n1", "--pod-ip", s.network.Bind(), "-l", "app.kubernetes.io/name=MyApp", "--port", "http=9376", "--ready-http", "9376/healthz", "--drain-delay", "0s",
		"--", filepath.Join(bin, "portolan"), "hello", "--port", "9376")
	s.explained("my-service")
	var found struct {
		Spec struct {
			ClusterIP string `json:"clusterIP"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(s.portolan("get", "service", "my-service", "-o", "json")), &found); err != nil {
		t.Fatal(err)
	}
	vip := hostPort(found.Spec.ClusterIP, 8080)
	kittest.Eventually(t, "an answer", func() error {
		name, err := get(vip)
		if err == nil && name != "one" {
			err = errors.New("the answer is from " + name)
		}
		return err
	})
	s.balanced()
	s.givenBack()
	s.backedUp()
	s.settingsKnown()
	for _, line := range s.log.lines() {
		if text := strings.ToLower(line); strings.Contains(text, "permission") || strings.Contains(text, "role ") && strings.Contains(text, "may not") || strings.Contains(text, "connection refused") && strings.Contains(text, "peer=") {
			t.Errorf("a daemon was refused something: %s", line)
		}
	}

	viewer := []string{"--tls-cert", filepath.Join(s.certs, "viewer.crt"), "--tls-key", filepath.Join(s.certs, "viewer.key"), "--tls-ca", filepath.Join(s.certs, "ca.crt")}
	s.portolan(append([]string{"get", "services"}, viewer...)...)
	if _, errOut, err := s.try("", append([]string{"delete", "service", "my-service"}, viewer...)...); err == nil ||
		!strings.Contains(errOut, "role viewer (spiffe://portolan/viewer) may not call /portolan.registry.v1.ServiceService/DeleteService: use a certificate of the role operator") {
		t.Errorf("a viewer deletes: %v\n%s", err, errOut)
	}
	t.Setenv("PORTOLAN_CERTS", "")
	if _, errOut, err := s.try("", "get", "services", "--timeout", "5s"); err == nil || !strings.Contains(errOut, "--certs") {
		t.Errorf("without a certificate: %v\n%s", err, errOut)
	}
}
