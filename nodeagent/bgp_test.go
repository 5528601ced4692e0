package nodeagent_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// router is a machine.Speaker that keeps the routes.
type router struct {
	mu     sync.Mutex
	routes map[netip.Addr]bool
	kept   chan bool // receives the argument of Close
}

func newRouter() *router { return &router{routes: map[netip.Addr]bool{}, kept: make(chan bool, 1)} }

func (r *router) open(o machine.SpeakerOptions) (machine.Speaker, error) {
	return r, r.Change(o.Routes, nil)
}

func (r *router) Change(advertise, withdraw []netip.Addr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, addr := range advertise {
		r.routes[addr] = true
	}
	for _, addr := range withdraw {
		delete(r.routes, addr)
	}
	return nil
}

func (r *router) Close(keep bool) { r.kept <- keep }

// await waits until there are routes to exactly these addresses.
func (r *router) await(t *testing.T, what string, want ...netip.Addr) {
	t.Helper()
	kittest.Eventually(t, what, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if got := slices.SortedFunc(maps.Keys(r.routes), netip.Addr.Compare); !slices.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
}

// balanced returns a service with a load-balancer address beside its cluster IP.
func balanced(name string, at netip.AddrPort, balanced netip.Addr) *corev1.Service {
	svc := service(name, at)
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
	svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: balanced.String()}}}}
	return svc
}

// TestAddressesAreAdvertised checks the route to a service through changes of the service and of the node.
func TestAddressesAreAdvertised(t *testing.T) {
	w, r := newWorld(t), newRouter()
	vip, addr, pod := freePort(t), netip.MustParseAddr("127.77.0.1"), backend(t, "one")
	foreign := netip.MustParseAddr("203.0.113.1") // no program can listen there, so the node does not forward it
	w.log.Put(balanced("web", vip, addr), endpoints("web", "here", pod), balanced("far", netip.AddrPortFrom(vip.Addr().Next(), vip.Port()), foreign), endpoints("far", "here", pod))
	cfg := w.config()
	cfg.BGPPeers, cfg.BGPAS = []string{"10.0.0.254@64513"}, 64512
	_, client, stop := w.start(cfg, func(d *nodeagent.Daemon) { d.SetSpeaker(r.open) })
	r.await(t, "the route", addr)
	drain := func(on bool) {
		t.Helper()
		if _, err := client.SetDraining(t.Context(), &nodeagentv1.SetDrainingRequest{Draining: on}); err != nil {
			t.Fatal(err)
		}
	}
	drain(true)
	r.await(t, "no route while the node drains")
	drain(false)
	r.await(t, "the route after the drain", addr)
	w.log.Change(nodeKey("here"), func(o object.Object) {
		o.GetMetadata().Labels = map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""}
	})
	r.await(t, "no route through a node that is excluded")
	w.log.Change(nodeKey("here"), func(o object.Object) { o.GetMetadata().Labels = nil })
	r.await(t, "the route afterwards", addr)
	local := balanced("web", vip, addr)
	local.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	w.log.Put(local, endpoints("web", "there", pod))
	w.applied(client)
	r.await(t, "the route to the endpoint of this node", addr)
	w.log.Delete(object.KeyOf(endpoints("web", "here", pod)))
	r.await(t, "no route to endpoints of other nodes under policy Local")
	w.log.Put(balanced("web", vip, addr))
	r.await(t, "the route under policy Cluster", addr)
	if routing := w.applied(client).GetRouting(); len(routing.GetPeers()) != 1 || !slices.Equal(routing.GetAddresses(), []string{addr.String()}) {
		t.Errorf("status %v", routing)
	}
	stop()
	if <-r.kept {
		t.Error("routers keep the routes, although userspace forwarding ends with the agent")
	}
}

// TestMachineWithoutBGP checks that an agent on a machine without BGP returns an error instead of running without it.
func TestMachineWithoutBGP(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.BGPPeers, cfg.BGPAS = []string{"10.0.0.254@64513"}, 64512
	host := kittest.Host(t, w.network, w.log.URL())
	agent, err := nodeagent.NewOn(t.Context(), machine.Userspace{}, cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "bgp-peers") {
		t.Errorf("got %v", err)
	}
}
