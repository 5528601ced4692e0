package loadbalancers

import (
	"context"
	"errors"
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
	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/lbctl"
	"portolan.dev/registry"
	"portolan.dev/services/changes/broker"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// installation is a registry, an allocator and an lbctl in one process.
type installation struct {
	*testing.T
	network   *rpc.MemoryNetwork
	bus       *broker.Broker
	addrs     map[string]string // of the APIs, by daemon
	services  registryv1.ServiceServiceClient
	events    registryv1.EventServiceClient
	allocator allocatorv1.AllocatorServiceClient
	stopLBCtl func()
	guards    map[string]*guardtest.World // by daemon

	stopAllocator func()
}

// virtualIPs are the ranges of virtual IPs of an installation.
var virtualIPs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}

// pools are the ranges of load-balancer addresses that an installation has.
var pools = []string{"192.0.2.0/29", "2001:db8::/125"}

// install starts an installation. change changes the configuration of lbctl.
func install(t *testing.T, change ...func(*lbctl.Config)) *installation {
	t.Helper()
	i := installWithoutLBCtl(t)
	i.startLBCtl(change...)
	return i
}

// installWithoutLBCtl starts an installation in which no lbctl runs yet.
func installWithoutLBCtl(t *testing.T) *installation {
	t.Helper()
	i := &installation{T: t, network: rpc.Memory(), bus: broker.New(broker.Options{MaxMsgs: 1000}), addrs: map[string]string{}, guards: map[string]*guardtest.World{}}
	t.Cleanup(i.bus.Close)
	for _, name := range []string{"registry", "allocator"} {
		i.addrs[name] = freeAddr(t)
	}
	data := t.TempDir()
	i.startAllocator(filepath.Join(data, "allocator"))
	var r registry.Config
	config.Defaults(&r)
	r.Addr, r.Store, r.Allocator, r.ServiceCIDR = i.addrs["registry"], "sqlite:"+filepath.Join(data, "registry"), i.addrs["allocator"], virtualIPs
	runDaemon(i, "registry", r, r.Common, registry.New)
	i.services, i.events = registryv1.NewServiceServiceClient(i.dial("registry")), registryv1.NewEventServiceClient(i.dial("registry"))
	i.allocator = allocatorv1.NewAllocatorServiceClient(i.dial("allocator"))
	return i
}

// startAllocator starts an allocator with its store in a folder.
func (i *installation) startAllocator(folder string) {
	i.Helper()
	var cfg allocator.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.DataDir, cfg.ServiceCIDR = i.addrs["allocator"], i.addrs["registry"], folder, virtualIPs
	for _, p := range pools {
		cfg.LoadBalancerPool = append(cfg.LoadBalancerPool, netip.MustParsePrefix(p))
	}
	i.stopAllocator = runDaemon(i, "allocator", cfg, cfg.Common, allocator.New)
}

// startLBCtl starts an lbctl, with short pauses. It takes the lease of one before it at once.
func (i *installation) startLBCtl(change ...func(*lbctl.Config)) {
	i.Helper()
	var cfg lbctl.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.Allocator, cfg.Identity = "127.0.0.1:0", i.addrs["registry"], i.addrs["allocator"], "only"
	cfg.RetryMin, cfg.RetryMax, cfg.PoolsInterval = 50*time.Millisecond, time.Minute, 50*time.Millisecond
	for _, c := range change {
		c(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		i.Fatal(err)
	}
	i.addrs["lbctl"] = cfg.Addr
	i.stopLBCtl = runDaemon(i, "lbctl", cfg, cfg.Common, lbctl.New)
}

// freeAddr returns an address of the loopback interface that nothing listens at.
func freeAddr(t *testing.T) string {
	t.Helper()
	lis := kittest.Listen(t)
	defer lis.Close()
	return lis.Addr().String()
}

// runDaemon runs a daemon until the test ends or stop is called.
func runDaemon[C any, D app.Daemon](i *installation, name string, cfg C, common daemon.Common, build func(context.Context, C, app.Host) (D, error)) (stop func()) {
	i.Helper()
	host := kittest.Host(i.T, i.network, "")
	host.NATS = daemon.NATS(name, common, host.Log, nil, nats.InProcessServer(i.bus.Dialer(name)))
	i.guards[name] = guardtest.Of(i.T, host)
	d, err := build(i.Context(), cfg, host)
	if err != nil {
		i.Fatalf("%s: %v", name, err)
	}
	return kittest.Run(i.T, name, d.Run)
}

func (i *installation) dial(name string) *grpc.ClientConn {
	i.Helper()
	conn, err := i.network.Dial(i.addrs[name])
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	return conn
}

// balanced returns a service of type LoadBalancer with one port.
func balanced(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, Selector: map[string]string{"app": name},
			Ports: []*corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

// annotate returns a change that sets an annotation.
func annotate(key, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Metadata.Annotations[key] = value }
}

// port returns a change that sets the service's only port.
func port(number int32) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.Ports[0].Port = number }
}

func (i *installation) create(svc *corev1.Service) *corev1.Service {
	i.Helper()
	var created *corev1.Service
	kittest.Eventually(i.T, "the registry to create "+svc.GetMetadata().GetName(), func() error {
		resp, err := i.services.CreateService(i.Context(), &registryv1.CreateServiceRequest{Service: svc})
		created = resp.GetService()
		return err
	})
	return created
}

// get returns a service, or nil if it does not exist.
func (i *installation) get(name string) *corev1.Service {
	i.Helper()
	resp, err := i.services.GetService(i.Context(), &registryv1.GetServiceRequest{Namespace: "default", Name: name})
	if err != nil {
		return nil
	}
	return resp.GetService()
}

// update changes a service.
func (i *installation) update(name string, change ...func(*corev1.Service)) {
	i.Helper()
	kittest.Eventually(i.T, "the update of "+name, func() error {
		svc := i.get(name)
		if svc.GetMetadata().Annotations == nil {
			svc.Metadata.Annotations = map[string]string{}
		}
		for _, c := range change {
			c(svc)
		}
		_, err := i.services.UpdateService(i.Context(), &registryv1.UpdateServiceRequest{Service: svc})
		return err
	})
}

func (i *installation) delete(name string) {
	i.Helper()
	if _, err := i.services.DeleteService(i.Context(), &registryv1.DeleteServiceRequest{Namespace: "default", Name: name}); err != nil {
		i.Fatal(err)
	}
}

// awaitGone waits until a service is gone.
func (i *installation) awaitGone(name string) {
	i.Helper()
	kittest.Eventually(i.T, name+" to be gone", func() error {
		if svc := i.get(name); svc != nil {
			return fmt.Errorf("it has %v", svc.GetMetadata().GetFinalizers())
		}
		return nil
	})
}

func addresses(svc *corev1.Service) []string {
	var all []string
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		all = append(all, ingress.GetIp())
	}
	return all
}

// awaitAddresses waits until a service has n addresses, and returns them.
func (i *installation) awaitAddresses(name string, n int) []string {
	i.Helper()
	var got []string
	kittest.Eventually(i.T, fmt.Sprintf("%d addresses of %s", n, name), func() error {
		svc := i.get(name)
		if got = addresses(svc); len(got) != n {
			return fmt.Errorf("it has %v, and conditions %v", got, svc.GetStatus().GetConditions())
		}
		return nil
	})
	return got
}

// awaitExactly waits until a service has exactly these addresses.
func (i *installation) awaitExactly(name string, want ...string) {
	i.Helper()
	kittest.Eventually(i.T, fmt.Sprintf("%v at %s", want, name), func() error {
		svc := i.get(name)
		if got := addresses(svc); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v, and conditions %v", got, svc.GetStatus().GetConditions())
		}
		return nil
	})
}

// awaitReason waits until the condition about the load balancer has a reason and a text.
func (i *installation) awaitReason(name, reason, text string) {
	i.Helper()
	kittest.Eventually(i.T, name+" to be "+reason, func() error {
		for _, c := range i.get(name).GetStatus().GetConditions() {
			if c.GetType() == object.ConditionLoadBalancer {
				if c.GetReason() == reason && strings.Contains(c.GetMessage(), text) {
					return nil
				}
				return fmt.Errorf("it is %s: %s", c.GetReason(), c.GetMessage())
			}
		}
		return errors.New("it has no condition")
	})
}

// awaitEvent waits for an event on a service with a reason and a text.
func (i *installation) awaitEvent(name, reason, text string) {
	i.Helper()
	kittest.Eventually(i.T, "an event "+reason, func() error {
		resp, err := i.events.ListEvents(i.Context(), &registryv1.ListEventsRequest{Namespace: "default", FieldSelector: "regarding.name=" + name})
		if err != nil {
			return err
		}
		var have []string
		for _, e := range resp.GetEvents() {
			if e.GetReason() == reason && strings.Contains(e.GetMessage(), text) {
				return nil
			}
			have = append(have, e.GetReason()+": "+e.GetMessage())
		}
		return fmt.Errorf("there are %q", have)
	})
}

// allocations returns the allocated load-balancer addresses with the kinds of their owners and their
// states, sorted: "192.0.2.1 Service CONFIRMED".
func (i *installation) allocations() []string {
	i.Helper()
	resp, err := i.allocator.ListAllocations(i.Context(), &allocatorv1.ListAllocationsRequest{PageSize: 1000})
	if err != nil {
		i.Fatal(err)
	}
	var all []string
	for _, a := range resp.GetAllocations() {
		if strings.HasPrefix(a.GetPool(), "load-balancer") && a.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING {
			all = append(all, fmt.Sprintf("%s %s %s", a.GetValue(), a.GetOwner().GetKind(), strings.TrimPrefix(a.GetState().String(), "ALLOCATION_STATE_")))
		}
	}
	slices.Sort(all)
	return all
}

// awaitAllocations waits until the allocator has exactly these load-balancer addresses.
func (i *installation) awaitAllocations(want ...string) {
	i.Helper()
	slices.Sort(want)
	kittest.Eventually(i.T, fmt.Sprintf("the allocations %q", want), func() error {
		if got := i.allocations(); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// awaitNoTrace waits until a service has no finalizer, annotation, address or condition of lbctl.
func (i *installation) awaitNoTrace(name string) {
	i.Helper()
	kittest.Eventually(i.T, "no trace of lbctl at "+name, func() error {
		svc := i.get(name)
		if len(svc.GetMetadata().GetFinalizers()) > 0 || svc.GetMetadata().GetAnnotations()[object.AnnotationBalancerProvider] != "" ||
			len(svc.GetStatus().GetConditions()) > 0 || len(addresses(svc)) > 0 {
			return fmt.Errorf("it is %v", svc)
		}
		return nil
	})
}

func (i *installation) createPool(name, ipRange string) {
	i.Helper()
	if _, err := i.allocator.CreatePool(i.Context(), &allocatorv1.CreatePoolRequest{Pool: &allocatorv1.Pool{
		Name: name, Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: ipRange,
	}}); err != nil {
		i.Fatal(err)
	}
}

// retire has no more addresses allocated from a pool.
func (i *installation) retire(name string) {
	i.Helper()
	for _, state := range []allocatorv1.PoolState{allocatorv1.PoolState_POOL_STATE_DRAINING, allocatorv1.PoolState_POOL_STATE_RETIRED} {
		if _, err := i.allocator.UpdatePool(i.Context(), &allocatorv1.UpdatePoolRequest{Pool: &allocatorv1.Pool{Name: name, State: state}}); err != nil {
			i.Fatal(err)
		}
	}
}
