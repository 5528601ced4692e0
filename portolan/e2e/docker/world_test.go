package docker

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"portolan.dev/allocator"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registrarv1 "portolan.dev/api/registrar/v1"
	"portolan.dev/endpointctl"
	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/registrar/dockertest"
	"portolan.dev/registry"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

const (
	registryPort  = 7400
	allocatorPort = 7401
	agentPort     = 7404
	registrarPort = 7408
)

// world is an installation of one node. The registrar is a process of its own.
type world struct {
	*testing.T
	lab       *dockertest.Lab
	network   loopbacktest.Network
	memory    *rpc.MemoryNetwork
	nats      string
	conn      *grpc.ClientConn // to the registry
	registrar *labtest.Process
	socket    string // of the engine
}

// start starts an installation that registers the containers of a lab's engine at a socket.
func start(t *testing.T, lab *dockertest.Lab, socket string) *world {
	t.Helper()
	w := &world{T: t, lab: lab, network: loopbacktest.Claim(t), memory: rpc.Memory(), socket: socket}
	_, w.nats = kittest.NATS(t)
	services := []netip.Prefix{netip.MustParsePrefix(w.network.Services())}
	data := t.TempDir()

	var a allocator.Config
	config.Defaults(&a)
	a.Addr, a.Registry, a.DataDir, a.ServiceCIDR = w.addr(allocatorPort), w.addr(registryPort), filepath.Join(data, "allocator"), services
	runDaemon(w, "allocator", a, allocator.New)

	var r registry.Config
	config.Defaults(&r)
	r.Addr, r.Store, r.Allocator, r.ServiceCIDR = w.addr(registryPort), "sqlite:"+filepath.Join(data, "registry"), w.addr(allocatorPort), services
	r.NodeAddresses = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(w.network.Bind()), 32)}
	r.ContainerRanges = lab.Ranges()
	runDaemon(w, "registry", r, registry.New)

	var e endpointctl.Config
	config.Defaults(&e)
	e.Addr, e.Registry, e.Identity = w.network.Addr("0.1", 0), w.addr(registryPort), "only"
	runDaemon(w, "endpointctl", e, endpointctl.New)

	var n nodeagent.Config
	config.Defaults(&n)
	n.Addr, n.Registry, n.NodeName, n.NodeAddresses, n.ProxyMode = w.addr(agentPort), w.addr(registryPort), "n1", []string{w.network.Bind()}, "userspace"
	n.HeartbeatInterval, n.UserspaceRanges = 100*time.Millisecond, services
	runDaemon(w, "nodeagent", n, func(ctx context.Context, cfg nodeagent.Config, host app.Host) (*nodeagent.Daemon, error) {
		return nodeagent.NewOn(ctx, machine.Userspace{}, cfg, host)
	})
	w.conn = w.dial(registryPort)
	w.Start()
	return w
}

// addr returns the address of a daemon.
func (w *world) addr(port int) string { return w.network.Addr("0.1", port) }

// Start starts the registrar. With Stop it implements dockertest.Watcher.
func (w *world) Start() {
	w.Helper()
	cmd := exec.Command(filepath.Join(bin, "registrar"), "-addr", w.addr(registrarPort), "-http-addr", w.network.Addr("0.1", registrarPort+100),
		"-registry", w.addr(registryPort), "-nats-url", w.nats, "-node-name", "n1", "-docker", "-docker-socket", w.socket, "-log-format", "json")
	w.registrar = labtest.Run(w.T, "registrar", cmd, topology.Own(w.T, "machine"))
}

// Stop kills the registrar.
func (w *world) Stop() { w.registrar.Kill() }

// runDaemon runs a daemon in this process until the test ends.
func runDaemon[C any, D app.Daemon](w *world, name string, cfg C, build func(context.Context, C, app.Host) (D, error)) {
	w.Helper()
	d, err := build(w.Context(), cfg, kittest.Host(w.T, w.memory, w.nats))
	if err != nil {
		w.Fatalf("%s: %v", name, err)
	}
	kittest.Run(w.T, name, d.Run)
}

func (w *world) dial(port int) *grpc.ClientConn {
	w.Helper()
	conn, err := w.memory.Dial(w.addr(port))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	return conn
}

// endpoints returns the endpoints of the lab's service web.
func (w *world) endpoints() ([]string, error) {
	return labtest.Endpoints(w.Context(), w.conn, w.lab.Mark, "web")
}

// await waits until the service has exactly these endpoints.
func (w *world) await(want ...string) {
	w.Helper()
	slices.Sort(want)
	w.eventually(fmt.Sprintf("endpoints %q", want), func() error {
		got, err := w.endpoints()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("there are %q", got)
		}
		return err
	})
}

// rests waits until the endpoints agree with docker inspect.
func (w *world) rests() {
	w.Helper()
	w.eventually("the endpoints that docker inspect shows", func() error {
		var want []string
		for _, state := range w.lab.Inspect() {
			text := fmt.Sprintf("%s:%d not ready", state.Address, dockertest.Port)
			if state.Ready {
				text = fmt.Sprintf("%s:%d ready", state.Address, dockertest.Port)
			}
			want = append(want, text)
		}
		slices.Sort(want)
		got, err := w.endpoints()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("the registry has %q, docker inspect %q", got, want)
		}
		return err
	})
}

// eventually is kittest.Eventually with the registrar's status in the error.
func (w *world) eventually(what string, cond func() error) {
	w.Helper()
	kittest.Eventually(w.T, what, func() error {
		if err := cond(); err != nil {
			status, statusErr := w.status()
			return fmt.Errorf("%w; the registrar says %w", err, cmp.Or(statusErr, fmt.Errorf("%v", status)))
		}
		return nil
	})
}

// status asks the registrar, which may be away.
func (w *world) status() (*registrarv1.GetStatusResponse, error) {
	conn, err := rpc.TCP().Dial(w.addr(registrarPort))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return registrarv1.NewRegistrarServiceClient(conn).GetStatus(w.Context(), &registrarv1.GetStatusRequest{})
}

// vip waits until the node forwards the lab's service web to n backends, and returns the URL of its
// virtual IP.
func (w *world) vip(n int) string {
	w.Helper()
	return awaitForwarding(w.T, nodeagentv1.NewNodeAgentServiceClient(w.dial(agentPort)), w.lab.Mark, n)
}
