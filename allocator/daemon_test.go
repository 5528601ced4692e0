package allocator_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/allocator"
)

// services is a registry without services.
type services struct {
	registryv1.UnimplementedServiceServiceServer
}

func (services) GetService(_ context.Context, req *registryv1.GetServiceRequest) (*registryv1.GetServiceResponse, error) {
	return nil, apierr.NotFound("Service", req.GetName())
}

// startRegistry serves a registry with the objects of a log over TCP and returns its address.
func startRegistry(t *testing.T, log *changestest.Log) string {
	t.Helper()
	lis := kittest.Listen(t)
	serveRegistry(t, log, lis)
	return lis.Addr().String()
}

func serveRegistry(t *testing.T, log *changestest.Log, lis net.Listener) {
	t.Helper()
	server := grpc.NewServer()
	log.Register(server)
	registryv1.RegisterServiceServiceServer(server, services{})
	kittest.Run(t, "registry", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(lis)
	})
}

func defaults(t *testing.T) allocator.Config {
	t.Helper()
	var cfg allocator.Config
	config.Defaults(&cfg)
	cfg.Addr = "127.0.0.1:0"
	cfg.Registry = "127.0.0.1:1" // nothing listens there
	cfg.DataDir = t.TempDir()
	return cfg
}

// start starts a daemon and returns a client of it.
func start(t *testing.T, cfg allocator.Config, natsURL string) (allocatorv1.AllocatorServiceClient, func()) {
	t.Helper()
	return startOn(t, cfg, kittest.Host(t, rpc.TCP(), natsURL))
}

func startOn(t *testing.T, cfg allocator.Config, host app.Host) (allocatorv1.AllocatorServiceClient, func()) {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := allocator.New(t.Context(), cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	stop := kittest.Run(t, "allocator", d.Run)
	conn, err := rpc.TCP().Dial(d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return allocatorv1.NewAllocatorServiceClient(conn), func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
	}
}

func allocation(uid string) *allocatorv1.AllocateRequest {
	return &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
		Owner:  &allocatorv1.Owner{Uid: uid, Kind: "Service", Namespace: "default", Name: uid},
		Claims: []*allocatorv1.Claim{{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP}},
	}}}
}

func allocate(t *testing.T, c allocatorv1.AllocatorServiceClient, uid string) string {
	t.Helper()
	resp, err := c.Allocate(t.Context(), allocation(uid))
	if err != nil || len(resp.GetResults()[0].GetValues()) != 1 {
		t.Fatalf("allocate: %v %v", resp, err)
	}
	return resp.GetResults()[0].GetValues()[0]
}

func pools(t *testing.T, c allocatorv1.AllocatorServiceClient) string {
	t.Helper()
	resp, err := c.ListPools(t.Context(), &allocatorv1.ListPoolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range resp.GetPools() {
		all = append(all, fmt.Sprintf("%s %s %d", p.GetName(), p.GetRange(), p.GetUsed()))
	}
	return strings.Join(all, ", ")
}

// TestAnEmptyFolderHandsOutNothingInUse starts an allocator with a new folder for a registry that
// already has services.
func TestAnEmptyFolderHandsOutNothingInUse(t *testing.T) {
	log := changestest.New(t)
	for n := 1; n < 14; n++ {
		ip := fmt.Sprintf("10.96.0.%d", n)
		log.Put(&corev1.Service{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("s%d", n)},
			Spec:     &corev1.ServiceSpec{ClusterIp: ip, ClusterIps: []string{ip}},
		})
	}
	lis := kittest.Listen(t)
	cfg := defaults(t)
	cfg.Registry, cfg.NATSPrefix = lis.Addr().String(), changestest.Prefix
	cfg.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/28")}
	host := kittest.Host(t, rpc.TCP(), log.URL())
	client, stop := startOn(t, cfg, host)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if answer, err := client.Allocate(ctx, allocation("early")); err == nil {
		t.Fatalf("%v was allocated before anybody knew what is in use", answer)
	}
	if err := host.Health.Ready(); err == nil {
		t.Error("ready before it is known what is in use")
	}
	serveRegistry(t, log, lis)
	if got := allocate(t, client, "late"); got != "10.96.0.14" {
		t.Errorf("got %s, want the only address that no service has, 10.96.0.14", got)
	}
	if err := host.Health.Ready(); err != nil {
		t.Errorf("not ready once it allocates: %v", err)
	}
}

func TestARestartKeepsWhatIsAllocatedAndGrowsPools(t *testing.T) {
	log := changestest.New(t)
	nats := log.URL()
	cfg := defaults(t)
	cfg.Registry, cfg.NATSPrefix = startRegistry(t, log), changestest.Prefix
	cfg.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/28"), netip.MustParsePrefix("fd00:96::/112")}
	client, stop := start(t, cfg, nats)
	if got, want := pools(t, client), "node-port 30000-32767 0, service-ipv4 10.96.0.0/28 0, service-ipv6 fd00:96::/112 0"; got != want {
		t.Errorf("pools %q, want %q", got, want)
	}
	ip := allocate(t, client, "web")
	stop()

	cfg.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.100.0.0/24")}
	cfg.PodCIDR = []netip.Prefix{netip.MustParsePrefix("127.64.0.0/16")}
	cfg.NodePortRange = "30000-30099" // smaller: the pool stays
	client, stop = start(t, cfg, nats)
	defer stop()
	want := "node-port 30000-32767 0, pod-ipv4 127.64.0.0/16 0, service-ipv4 10.96.0.0/16 1, service-ipv4-2 10.100.0.0/24 0, service-ipv6 fd00:96::/112 0"
	if got := pools(t, client); got != want {
		t.Errorf("pools %q, want %q", got, want)
	}
	if again := allocate(t, client, "web"); again != ip {
		t.Errorf("after the restart %s, before it %s", again, ip)
	}
}

func TestConfigurationsThatCannotBeAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*allocator.Config){
		"no service range":     func(c *allocator.Config) { c.ServiceCIDR = nil },
		"host bits":            func(c *allocator.Config) { c.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.1/16")} },
		"ports as CIDR":        func(c *allocator.Config) { c.NodePortRange = "10.0.0.0/8" },
		"ports backwards":      func(c *allocator.Config) { c.NodePortRange = "32767-30000" },
		"a verifier in a rush": func(c *allocator.Config) { c.VerifyInterval = 0 },
		"load balancers on loopback": func(c *allocator.Config) {
			c.LoadBalancerPool = []netip.Prefix{netip.MustParsePrefix("127.98.0.0/24")}
		},
		"multicast": func(c *allocator.Config) { c.PodCIDR = []netip.Prefix{netip.MustParsePrefix("224.1.0.0/16")} },
	} {
		cfg := defaults(t)
		spoil(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	cfg := defaults(t)
	cfg.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("127.96.0.0/16")}
	cfg.LoadBalancerPool = []netip.Prefix{netip.MustParsePrefix("127.98.0.0/24")}
	if err := cfg.Validate(); err != nil {
		t.Errorf("an installation on one machine: %v", err)
	}
	cfg = defaults(t)
	cfg.PodCIDR = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	_, nats := kittest.NATS(t)
	if _, err := allocator.New(t.Context(), cfg, kittest.Host(t, rpc.TCP(), nats)); err == nil {
		t.Error("pods and services with the same addresses: accepted")
	}
}

func TestTheVerifierFreesWhatNobodyStored(t *testing.T) {
	log := changestest.New(t)
	cfg := defaults(t)
	cfg.Registry = startRegistry(t, log)
	cfg.NATSPrefix = changestest.Prefix
	cfg.VerifyGrace, cfg.VerifyInterval = 10*time.Millisecond, 5*time.Millisecond
	client, stop := start(t, cfg, log.URL())
	defer stop()
	ip := allocate(t, client, "forgotten")
	kittest.Eventually(t, ip+" to be freed", func() error {
		resp, err := client.ListAllocations(t.Context(), &allocatorv1.ListAllocationsRequest{OwnerUid: "forgotten"})
		if err != nil {
			return err
		}
		for _, a := range resp.GetAllocations() {
			if a.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING {
				return fmt.Errorf("still %v", a)
			}
		}
		return nil
	})
}
