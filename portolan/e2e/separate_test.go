package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/services/kit/kittest"
)

// separate is an installation with each daemon in a process of its own, at its default port and without
// TLS.
type separate struct {
	*installation
	store      string   // URL of the registries' store
	registries []string // hosts that run a registry; all other daemons run on the first host
	folder     string   // data folder of the allocator
	shared     string   // URL of the store of several allocators; empty: there is one, with its folder
	debug      string   // folder of the first registry's debug socket; empty: none
	audit      string   // folder of the registries' audit logs; empty: none
	accessLogs string   // folder of the edge's access logs; empty: none
	running    map[seat]*process
}

// seat is a daemon on a host.
type seat struct{ daemon, host string }

// host is the first host, on which all daemons run.
const host = "0.1"

// separately returns an installation in which no daemon runs yet.
func separately(t *testing.T, store string, registries ...string) *separate {
	t.Helper()
	return &separate{
		installation: &installation{T: t, network: loopbacktest.Claim(t)}, store: store, registries: registries, folder: t.TempDir(), running: map[seat]*process{},
	}
}

// ports are the ports of the daemons' APIs. The port of metrics is higher by 100.
var ports = map[string]int{"registry": 7400, "allocator": 7401, "endpointctl": 7402, "lbctl": 7406, "dnssvc": 7403, "nodeagent": 7404, "edge": 7407, "kubeapi": 7405}

// seats returns the places at which a daemon is to run.
func (s *separate) seats(daemon string) []seat {
	hosts := []string{host}
	if daemon == "registry" || daemon == "allocator" && s.shared != "" {
		hosts = s.registries
	}
	all := make([]seat, len(hosts))
	for i, where := range hosts {
		all[i] = seat{daemon, where}
	}
	return all
}

// apis returns the addresses of a daemon's APIs, comma separated.
func (s *separate) apis(daemon string) string {
	seats := s.seats(daemon)
	all := make([]string, len(seats))
	for i, at := range seats {
		all[i] = s.network.Addr(at.host, ports[daemon])
	}
	return strings.Join(all, ",")
}

// start starts a daemon, which finds the others at their default ports.
func (s *separate) start(at seat) *process {
	s.Helper()
	p := startProgram(s.T, at.daemon, at.daemon, s.flags(at)...)
	s.running[at] = p
	return p
}

// stop stops a daemon as a supervisor does.
func (s *separate) stop(at seat) {
	s.Helper()
	if err := s.running[at].signal(syscall.SIGTERM); err != nil {
		s.Errorf("%s did not stop cleanly: %v", at.daemon, err)
	}
}

// restart restarts all processes of a daemon, one after the other.
func (s *separate) restart(daemon string) {
	s.Helper()
	for _, at := range s.seats(daemon) {
		s.stop(at)
		s.start(at)
		s.awaitReady(at)
	}
}

func (s *separate) flags(at seat) []string {
	flags := []string{
		"-addr", s.network.Addr(at.host, ports[at.daemon]), "-http-addr", s.http(at), "-log-format", "json", "-nats-url", "nats://" + s.api(4222),
	}
	registry := []string{"-registry", s.apis("registry")}
	ranges := []string{"-service-cidr", s.network.Services(), "-pod-cidr", s.network.Pods()}
	var own []string
	switch at.daemon {
	case "registry":
		if s.debug != "" && at.host == host {
			flags = append(flags, "-debug-addr", "unix:"+filepath.Join(s.debug, "debug.sock"))
		}
		if s.audit != "" {
			flags = append(flags, "-audit-log", filepath.Join(s.audit, "audit.log-"+at.host))
		}
		registry, own = nil, append(ranges, "-store-file", kittest.SecretFile(s.T, s.store), "-allocator", s.apis("allocator"), "-loopback-endpoints", s.network.Pods())
	case "allocator":
		own = append(ranges, "-data-dir", s.folder)
		if s.shared != "" {
			own = append(ranges, "-store-file", kittest.SecretFile(s.T, s.shared))
		}
	case "lbctl":
		own = []string{"-allocator", s.apis("allocator")}
	case "dnssvc":
		own = append(ranges, "-listen", s.network.DNS(), "-lame-duck", "0s")
	case "edge":
		own = []string{"-node-name", "n1", "-agent", "", "-ranges", s.network.Balancers(), "-access-log-dir", s.accessLogs}
	case "nodeagent":
		own = []string{"-node-name", "n1", "-node-addresses", s.network.Bind(), "-proxy-mode", "userspace", "-pod-cidr", s.network.Pods(), "-healthz-addr", ""}
	}
	return append(append(flags, registry...), own...)
}

// startNATS starts a NATS server with JetStream, at its usual port.
func (s *separate) startNATS() {
	s.Helper()
	serveNATS(s.T, &server.Options{Host: s.network.Bind(), Port: 4222, JetStream: true, StoreDir: natsDir(s.T)})
}

// http returns the address of a daemon's metrics and health.
func (s *separate) http(at seat) string { return s.network.Addr(at.host, ports[at.daemon]+100) }

// awaitReady waits until a daemon is ready.
func (s *separate) awaitReady(at seat) {
	s.Helper()
	kittest.Eventually(s.T, at.daemon, func() error { return s.ready(at) })
}

// ready returns the reason why a daemon is not ready, or nil.
func (s *separate) ready(at seat) error {
	_, err := getPage(s.http(at), "/readyz")
	return err
}

// getPage returns a page that a daemon serves at its HTTP address.
func getPage(address, path string) (string, error) {
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", answer.StatusCode, text)
	}
	return string(text), err
}
