package nodes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/endpointctl"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// mortalNetwork is the network of a daemon. It can end all connections, as if the process were killed.
type mortalNetwork struct {
	*directory

	mu    sync.Mutex
	dead  bool       // guarded by mu
	conns []net.Conn // guarded by mu
}

// Dial implements rpc.Network.
func (n *mortalNetwork) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return rpc.TCP().Dial("passthrough:///"+target, append(opts, grpc.WithContextDialer(n.connect))...)
}

func (n *mortalNetwork) connect(ctx context.Context, name string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", n.address(name))
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	n.conns = append(n.conns, conn)
	return conn, nil
}

func (n *mortalNetwork) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead = true
	for _, conn := range n.conns {
		_ = conn.Close()
	}
}

// controller is an endpoint controller.
type controller struct {
	endpointsv1.EndpointControllerServiceClient
	network *mortalNetwork
	stop    func()
}

// kill ends a controller, so that it cannot release its leases.
func (c *controller) kill() {
	c.network.kill()
	c.stop()
}

const shards = 4

func (c *cluster) startController(name string) *controller {
	c.Helper()
	var cfg endpointctl.Config
	config.Defaults(&cfg)
	cfg.Common, cfg.Registry, cfg.Identity, cfg.Shards, cfg.LeaseDuration = c.common(name), "registry", name, shards, 2*time.Second
	network := &mortalNetwork{directory: c.directory}
	d, err := endpointctl.New(c.Context(), cfg, kittest.Host(c.T, network, c.nats))
	if err != nil {
		c.Fatal(err)
	}
	return &controller{
		EndpointControllerServiceClient: endpointsv1.NewEndpointControllerServiceClient(c.connect(name)), network: network, stop: kittest.Run(c.T, name, d.Run),
	}
}

func (c *cluster) connect(name string) *grpc.ClientConn {
	c.Helper()
	conn, err := c.directory.Dial(name)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := conn.Close(); err != nil {
			c.Error(err)
		}
	})
	return conn
}

func (c *controller) held(t *testing.T) []uint32 {
	t.Helper()
	status, err := c.GetStatus(t.Context(), &endpointsv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return status.GetHeldShards()
}

// waitUntilSpread waits until each shard has a holder among the controllers and none has two more than
// another one.
func waitUntilSpread(t *testing.T, all map[string]*controller) {
	t.Helper()
	kittest.Eventually(t, "the shards to be spread", func() error {
		var held []uint32
		sizes := map[string]int{}
		for name, c := range all {
			mine := c.held(t)
			sizes[name] = len(mine)
			held = append(held, mine...)
		}
		slices.Sort(held)
		counts := slices.Sorted(maps.Values(sizes))
		if !slices.Equal(held, []uint32{0, 1, 2, 3}) || counts[len(counts)-1]-counts[0] > 1 {
			return fmt.Errorf("%v, in all %v", sizes, held)
		}
		return nil
	})
}

const shardServices = 24

// putServices creates services web-0, web-1, … with one ready pod each.
func (c *cluster) putServices(services registryv1.ServiceServiceClient, pods registryv1.PodServiceClient) {
	c.Helper()
	for i := range shardServices {
		name := fmt.Sprint("web-", i)
		_, err := services.CreateService(c.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
			Spec:     &corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []*corev1.ServicePort{{Port: 80}}},
		}})
		if err != nil {
			c.Fatal(err)
		}
		if _, err = pods.CreatePod(c.Context(), &registryv1.CreatePodRequest{Pod: &corev1.Pod{
			Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}},
			Spec:     &corev1.PodSpec{Containers: []*corev1.Container{{Name: "main"}}},
		}}); err != nil {
			c.Fatal(err)
		}
		c.setPod(pods, i, corev1.ConditionStatus_CONDITION_STATUS_TRUE)
	}
}

func (c *cluster) setPod(pods registryv1.PodServiceClient, i int, ready corev1.ConditionStatus) {
	c.Helper()
	_, err := pods.UpdatePodStatus(c.Context(), &registryv1.UpdatePodStatusRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i)},
		Status: &corev1.PodStatus{
			Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: fmt.Sprint("127.1.0.", i+1),
			Conditions: []*corev1.Condition{{Type: object.ConditionReady, Status: ready}},
		},
	}})
	if err != nil {
		c.Fatal(err)
	}
}

// waitForSlices waits until each service has its endpoint. Endpoints of the services in notReady must not be
// ready, all others must be.
func waitForSlices(t *testing.T, what string, client registryv1.EndpointSliceServiceClient, notReady map[string]bool) {
	t.Helper()
	want := map[string]string{}
	for i := range shardServices {
		name := fmt.Sprint("web-", i)
		want[name] = fmt.Sprintf("127.1.0.%d %v;", i+1, !notReady[name])
	}
	kittest.Eventually(t, what, func() error {
		list, err := client.ListEndpointSlices(t.Context(), &registryv1.ListEndpointSlicesRequest{Namespace: "default"})
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, s := range list.GetEndpointSlices() {
			for _, ep := range s.GetEndpoints() {
				got[s.GetMetadata().GetLabels()[object.LabelServiceName]] += fmt.Sprintf("%s %v;", ep.GetAddresses()[0], ep.GetConditions().GetReady())
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("slices %v, want %v", got, want)
		}
		return nil
	})
}

func TestControllersShareServices(t *testing.T) {
	c := control(t, netip.MustParsePrefix("127.19.0.0/16"))
	conn := c.connect("registry")
	pods := registryv1.NewPodServiceClient(conn)
	slicesOf := registryv1.NewEndpointSliceServiceClient(conn)
	all := map[string]*controller{}
	for _, name := range []string{"endpointctl-a", "endpointctl-b", "endpointctl-c"} {
		all[name] = c.startController(name)
	}
	waitUntilSpread(t, all)
	c.putServices(registryv1.NewServiceServiceClient(conn), pods)
	waitForSlices(t, "all endpoints", slicesOf, nil)

	// The controller that dies has several shards, because three share four.
	dying := slices.MaxFunc(slices.Sorted(maps.Keys(all)), func(a, b string) int { return len(all[a].held(t)) - len(all[b].held(t)) })
	lost := all[dying].held(t)
	all[dying].kill()
	delete(all, dying)
	left, err := registryv1.NewLeaseServiceClient(conn).GetLease(t.Context(), &registryv1.GetLeaseRequest{
		Namespace: "default", Name: spec.ControllerShardLease(spec.ControllerLease, int(lost[0])),
	})
	if err != nil || left.GetLease().GetSpec().GetHolderIdentity() != dying {
		t.Fatalf("%s has died and left the Lease %v, %v", dying, left, err)
	}
	changed := map[string]bool{}
	for i := range shardServices {
		key := object.Name{Namespace: "default", Name: fmt.Sprint("web-", i)}
		if slices.Contains(lost, uint32(spec.ControllerShard(key, shards))) {
			c.setPod(pods, i, corev1.ConditionStatus_CONDITION_STATUS_FALSE)
			changed[key.Name] = true
		}
	}
	if len(lost) != 2 || len(changed) == 0 {
		t.Fatalf("%s held %v, with %d services", dying, lost, len(changed))
	}
	waitForSlices(t, "changes to services of the shards of "+dying, slicesOf, changed)
	waitUntilSpread(t, all)

	all["endpointctl-d"] = c.startController("endpointctl-d")
	waitUntilSpread(t, all)
	for name := range changed {
		var i int
		if _, err := fmt.Sscanf(name, "web-%d", &i); err != nil {
			t.Fatal(err)
		}
		c.setPod(pods, i, corev1.ConditionStatus_CONDITION_STATUS_TRUE)
	}
	waitForSlices(t, "changes after a controller has joined", slicesOf, nil)
}
