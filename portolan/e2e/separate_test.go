package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"portolan.dev/services/kit/kittest"
)

// separate is an installation whose daemons are processes of their own, at their usual ports, in the clear.
type separate struct {
	*installation
	store      string   // of the registries
	registries []string // hosts that run one; the others run on the first
	folder     string   // of the allocator
	running    map[seat]*process
}

// seat is where a daemon runs.
type seat struct{ daemon, host string }

// host is the first, on which all run.
const host = "0.1"

// separately makes an installation of which nothing runs yet.
func separately(t *testing.T, store string, registries ...string) *separate {
	t.Helper()
	return &separate{
		installation: &installation{T: t, network: claimNetwork(t)}, store: store, registries: registries, folder: t.TempDir(), running: map[seat]*process{},
	}
}

// ports are those of the daemons' APIs; that of metrics is a hundred more.
var ports = map[string]int{"registry": 7400, "allocator": 7401, "endpointctl": 7402, "dnssvc": 7403, "nodeagent": 7404}

// seats are where a daemon is to run.
func (s *separate) seats(daemon string) []seat {
	if daemon != "registry" {
		return []seat{{daemon, host}}
	}
	var all []seat
	for _, where := range s.registries {
		all = append(all, seat{daemon, where})
	}
	return all
}

// start starts a daemon, which finds the others at their usual ports.
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
		"-addr", s.network.addr(at.host, ports[at.daemon]), "-http-addr", s.http(at), "-log-format", "json", "-nats-url", "nats://" + s.api(4222),
	}
	var registries []string
	for _, where := range s.registries {
		registries = append(registries, s.network.addr(where, ports["registry"]))
	}
	registry := []string{"-registry", strings.Join(registries, ",")}
	ranges := []string{"-service-cidr", s.network.services(), "-pod-cidr", s.network.pods()}
	var own []string
	switch at.daemon {
	case "registry":
		registry, own = nil, append(ranges, "-store", s.store, "-allocator", s.api(ports["allocator"]), "-loopback-endpoints", s.network.pods())
	case "allocator":
		own = append(ranges, "-data-dir", s.folder)
	case "dnssvc":
		own = append(ranges, "-listen", s.network.dns(), "-lame-duck", "0s")
	case "nodeagent":
		own = []string{"-node-name", "n1", "-node-addresses", s.network.bind(), "-proxy-mode", "userspace", "-pod-cidr", s.network.pods(), "-healthz-addr", ""}
	}
	return append(append(flags, registry...), own...)
}

// startNATS starts a NATS server with JetStream, at its usual port.
func (s *separate) startNATS() {
	s.Helper()
	serveNATS(s.T, &server.Options{Host: s.network.bind(), Port: 4222, JetStream: true, StoreDir: natsDir(s.T)})
}

// http is where a daemon serves metrics and health.
func (s *separate) http(at seat) string { return s.network.addr(at.host, ports[at.daemon]+100) }

// awaitReady waits until a daemon is ready.
func (s *separate) awaitReady(at seat) {
	s.Helper()
	kittest.Eventually(s.T, at.daemon, func() error { return s.ready(at) })
}

// ready says what keeps a daemon from being ready.
func (s *separate) ready(at seat) error {
	answer, err := http.Get("http://" + s.http(at) + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", answer.StatusCode, text)
	}
	return err
}
