package registry_test

import (
	"context"
	"iter"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/internal/allocfake"
	"portolan.dev/registry/program"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// poolSize is the number of values of each kind in the allocator, more than killed processes can
// leave allocated.
const poolSize = 50

// installation is a registry with its store, allocator and NATS.
type installation struct {
	t         *testing.T
	config    registry.Config
	allocator *allocfake.Allocator
	network   *rpc.MemoryNetwork
	nats      string
	ctx       context.Context
}

// replica is one running registry of an installation.
type replica struct {
	*grpc.ClientConn
	stop    func()
	health  *health.Registry
	metrics *prometheus.Registry

	services   registryv1.ServiceServiceClient
	pods       registryv1.PodServiceClient
	nodes      registryv1.NodeServiceClient
	namespaces registryv1.NamespaceServiceClient
	endpoints  registryv1.EndpointsServiceClient
	slices     registryv1.EndpointSliceServiceClient
	leases     registryv1.LeaseServiceClient
	events     registryv1.EventServiceClient
	apply      registryv1.ApplyServiceClient
	changes    registryv1.ChangeServiceClient
}

// install creates an installation without running registries. The stream needs NATS, but most tests
// do without it; the relay then keeps trying.
func install(t *testing.T, set ...func(*registry.Config)) *installation {
	t.Helper()
	_, url := kittest.NATS(t)
	i := &installation{t: t, allocator: allocfake.New(poolSize, "10.96.0.0/16", "fd00:96::/112"), network: rpc.Memory(), nats: url, ctx: t.Context()}
	i.allocator.EnableReserves(reserved)
	lis, err := i.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := kittest.Host(t, i.network, "")
	server := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health})
	i.allocator.Register(server)
	kittest.Run(t, "allocator", func(ctx context.Context) error { return server.Serve(ctx, lis) })

	config.Defaults(&i.config)
	i.config.Addr = "127.0.0.1:0"
	i.config.Store = "sqlite:" + filepath.Join(t.TempDir(), "registry")
	i.config.Allocator = lis.Addr().String()
	i.config.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	i.config.ExternalIPs = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("192.0.2.0/24")}
	for _, fn := range set {
		fn(&i.config)
	}
	return i
}

// dual makes an installation dual-stack.
func dual(c *registry.Config) {
	c.ServiceCIDR = append(c.ServiceCIDR, netip.MustParsePrefix("fd00:96::/112"))
}

// start starts a registry.
func (i *installation) start() *replica {
	i.t.Helper()
	host := kittest.Host(i.t, i.network, i.nats)
	d, err := program.New(i.ctx, i.config, host)
	if err != nil {
		i.t.Fatal(err)
	}
	stop := kittest.Run(i.t, "registry", d.Run)
	conn, err := i.network.Dial(d.Addr().String())
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { conn.Close() })
	return &replica{
		ClientConn: conn, stop: stop, health: host.Health, metrics: host.Metrics,
		services: registryv1.NewServiceServiceClient(conn), pods: registryv1.NewPodServiceClient(conn), nodes: registryv1.NewNodeServiceClient(conn),
		namespaces: registryv1.NewNamespaceServiceClient(conn), endpoints: registryv1.NewEndpointsServiceClient(conn),
		slices: registryv1.NewEndpointSliceServiceClient(conn), leases: registryv1.NewLeaseServiceClient(conn),
		events: registryv1.NewEventServiceClient(conn), apply: registryv1.NewApplyServiceClient(conn), changes: registryv1.NewChangeServiceClient(conn),
	}
}

// run creates an installation with one registry.
func run(t *testing.T, set ...func(*registry.Config)) (*installation, *replica) {
	t.Helper()
	i := install(t, set...)
	return i, i.start()
}

// within returns a context with a deadline for calls that could hang.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// web returns a service with a selector and one port.
func web(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []*corev1.ServicePort{{Name: "http", Port: 80, TargetPort: number(9376)}},
		},
	}
	for _, fn := range change {
		fn(svc)
	}
	return svc
}

func number(n int32) *corev1.IntOrString {
	return &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: n}}
}

// create creates a service and fails the test if it is refused.
func (r *replica) create(t *testing.T, svc *corev1.Service) *corev1.Service {
	t.Helper()
	answer, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: svc})
	if err != nil {
		t.Fatalf("create %s: %v", svc.GetMetadata().GetName(), err)
	}
	return answer.GetService()
}

// update updates a service and fails the test if it is refused.
func (r *replica) update(t *testing.T, svc *corev1.Service) *corev1.Service {
	t.Helper()
	answer, err := r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: svc})
	if err != nil {
		t.Fatalf("update %s: %v", svc.GetMetadata().GetName(), err)
	}
	return answer.GetService()
}

// edit changes an object's metadata in the store while no registry runs on it.
func (i *installation) edit(kind, name string, change func(*corev1.ObjectMeta)) {
	i.t.Helper()
	s, err := program.OpenStore(i.ctx, i.config, kittest.Logger(i.t))
	if err != nil {
		i.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			i.t.Error(err)
		}
	}()
	key := object.Key{Kind: kind, Namespace: object.DefaultNamespace, Name: name}
	var found *store.Row
	err = s.Snapshot(i.ctx, func(_ store.Head, rows iter.Seq2[store.Row, error]) error {
		for row, err := range rows {
			if err != nil {
				return err
			}
			if row.Key == key {
				found = &row
			}
		}
		return nil
	})
	if err != nil || found == nil {
		i.t.Fatalf("%s: %v, %v", key, found, err)
	}
	o, err := store.Decode(kind, found.Data, found.Revision)
	if err != nil {
		i.t.Fatal(err)
	}
	change(object.MetaOf(o))
	data, err := store.Encode(o)
	if err != nil {
		i.t.Fatal(err)
	}
	if _, err := s.Submit(i.ctx, store.Op{Action: store.Update, Key: key, UID: found.UID, Revision: found.Revision, Data: data}); err != nil {
		i.t.Fatal(err)
	}
}
