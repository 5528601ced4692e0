package registrar

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	"portolan.dev/allocator"
	corev1 "portolan.dev/api/core/v1"
	registrarv1 "portolan.dev/api/registrar/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/endpointctl"
	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/registrar"
	"portolan.dev/registrar/source"
	"portolan.dev/registry"
	"portolan.dev/services/changes/broker"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// world is an installation of one node.
type world struct {
	*testing.T
	network *rpc.MemoryNetwork
	bus     *broker.Broker
	addrs   map[string]string // of the APIs, by daemon
	conn    *grpc.ClientConn  // to the registry
	source  *script
	stop    func() // stops the registrar
}

// script is a source with reports from the test. Each new registrar gets the last report again.
type script struct {
	reports chan source.Report
	last    *source.Report
}

func (s *script) Name() string { return "docker" }

func (s *script) Run(ctx context.Context, report func(source.Report)) error {
	if s.last != nil {
		report(*s.last)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-s.reports:
			report(r)
		}
	}
}

// start starts an installation with a registrar. Its source has not reported yet.
func start(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, network: rpc.Memory(), bus: broker.New(broker.Options{MaxMsgs: 1000}), addrs: map[string]string{}, source: &script{reports: make(chan source.Report)}}
	t.Cleanup(w.bus.Close)
	for _, name := range []string{"registry", "allocator", "registrar"} {
		listener := kittest.Listen(t)
		w.addrs[name] = listener.Addr().String()
		listener.Close()
	}
	data, services := t.TempDir(), []netip.Prefix{netip.MustParsePrefix("127.96.0.0/24")}
	var a allocator.Config
	config.Defaults(&a)
	a.Addr, a.Registry, a.DataDir, a.ServiceCIDR = w.addrs["allocator"], w.addrs["registry"], filepath.Join(data, "allocator"), services
	run(w, "allocator", a, a.Common, allocator.New)

	var r registry.Config
	config.Defaults(&r)
	r.Addr, r.Store, r.Allocator, r.ServiceCIDR = w.addrs["registry"], "sqlite:"+filepath.Join(data, "registry"), w.addrs["allocator"], services
	r.LoopbackEndpoints = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r.ContainerRanges = r.LoopbackEndpoints
	run(w, "registry", r, r.Common, registry.New)

	var e endpointctl.Config
	config.Defaults(&e)
	e.Addr, e.Registry, e.Identity = "127.0.0.1:0", w.addrs["registry"], "only"
	run(w, "endpointctl", e, e.Common, endpointctl.New)

	var n nodeagent.Config
	config.Defaults(&n)
	n.Addr, n.Registry, n.NodeName, n.NodeAddresses, n.ProxyMode = "127.0.0.1:0", w.addrs["registry"], "n1", []string{"127.0.0.1"}, "userspace"
	n.HeartbeatInterval, n.UserspaceRanges = 100*time.Millisecond, services
	run(w, "nodeagent", n, n.Common, func(ctx context.Context, cfg nodeagent.Config, host app.Host) (*nodeagent.Daemon, error) {
		return nodeagent.NewOn(ctx, machine.Userspace{}, cfg, host)
	})
	w.conn = w.dial("registry")
	w.startRegistrar()
	return w
}

// startRegistrar starts a registrar. change changes its configuration.
func (w *world) startRegistrar(change ...func(*registrar.Config)) {
	w.Helper()
	var cfg registrar.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.NodeName = w.addrs["registrar"], w.addrs["registry"], "n1"
	for _, c := range change {
		c(&cfg)
	}
	w.stop = run(w, "registrar", cfg, cfg.Common, func(ctx context.Context, cfg registrar.Config, host app.Host) (*registrar.Daemon, error) {
		return registrar.NewWith(ctx, cfg, host, w.source)
	})
}

// run runs a daemon until the test ends or stop is called.
func run[C any, D app.Daemon](w *world, name string, cfg C, common daemon.Common, build func(context.Context, C, app.Host) (D, error)) (stop func()) {
	w.Helper()
	host := kittest.Host(w.T, w.network, "")
	host.NATS = daemon.NATS(name, common, host.Log, nil, nats.InProcessServer(w.bus.Dialer(name)))
	d, err := build(w.Context(), cfg, host)
	if err != nil {
		w.Fatalf("%s: %v", name, err)
	}
	return kittest.Run(w.T, name, d.Run)
}

func (w *world) dial(name string) *grpc.ClientConn {
	w.Helper()
	conn, err := w.network.Dial(w.addrs[name])
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	return conn
}

// says has the source report workloads.
func (w *world) says(workloads ...source.Workload) { w.report(source.Report{Workloads: workloads}) }

func (w *world) report(r source.Report) {
	w.Helper()
	select {
	case w.source.reports <- r:
		w.source.last = &r
	case <-time.After(time.Minute):
		w.Fatal("the registrar does not run its source")
	}
}

// container returns a workload of the service web.
func container(id string, change ...func(*source.Workload)) source.Workload {
	out := source.Workload{
		ID: id, Name: "web-" + id, Service: "web", Addresses: []string{"127.0.0.2"}, Ready: true,
		Ports: []source.Port{{Name: "http", Number: 8000, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	for _, c := range change {
		c(&out)
	}
	return out
}

// await waits until a service in the namespace default has exactly these endpoints.
func (w *world) await(service string, want ...string) {
	w.Helper()
	w.awaitIn("default", service, want...)
}

func (w *world) awaitIn(namespace, service string, want ...string) {
	w.Helper()
	slices.Sort(want)
	kittest.Eventually(w.T, fmt.Sprintf("endpoints %q of %s", want, service), func() error {
		got, err := labtest.Endpoints(w.Context(), w.conn, namespace, service)
		if err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("%q, %w", got, cmp.Or(err, fmt.Errorf("pods %v", w.pods())))
		}
		return nil
	})
}

// pods returns all pods as "NAMESPACE/SERVICE UID", in the order of their names.
func (w *world) pods() []string {
	res, err := registryv1.NewPodServiceClient(w.conn).ListPods(w.Context(), &registryv1.ListPodsRequest{})
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, p := range res.GetPods() {
		out = append(out, fmt.Sprintf("%s/%s %s", p.GetMetadata().GetNamespace(), p.GetMetadata().GetLabels()[object.LabelService], p.GetMetadata().GetUid()))
	}
	return out
}

// awaitPods waits until there are n pods, and returns them.
func (w *world) awaitPods(n int) []string {
	w.Helper()
	var pods []string
	kittest.Eventually(w.T, fmt.Sprintf("%d pods", n), func() error {
		if pods = w.pods(); len(pods) != n {
			return fmt.Errorf("there are %q", pods)
		}
		return nil
	})
	return pods
}

// awaitEvent waits for an Event with a reason and a text, in any namespace.
func (w *world) awaitEvent(reason, text string) {
	w.Helper()
	kittest.Eventually(w.T, "an event "+reason, func() error {
		res, err := registryv1.NewEventServiceClient(w.conn).ListEvents(w.Context(), &registryv1.ListEventsRequest{})
		var have []string
		for _, e := range res.GetEvents() {
			if e.GetReason() == reason && strings.Contains(e.GetMessage(), text) {
				return nil
			}
			have = append(have, e.GetReason()+": "+e.GetMessage())
		}
		return fmt.Errorf("there are %q, %w", have, cmp.Or(err, fmt.Errorf("status %v", w.status())))
	})
}

func (w *world) status() *registrarv1.GetStatusResponse {
	res, err := registrarv1.NewRegistrarServiceClient(w.dial("registrar")).GetStatus(w.Context(), &registrarv1.GetStatusRequest{})
	if err != nil {
		return &registrarv1.GetStatusResponse{Warnings: []string{err.Error()}}
	}
	return res
}

func (w *world) createService(svc *corev1.Service) {
	w.Helper()
	if _, err := registryv1.NewServiceServiceClient(w.conn).CreateService(w.Context(), &registryv1.CreateServiceRequest{Service: svc}); err != nil {
		w.Fatal(err)
	}
}
