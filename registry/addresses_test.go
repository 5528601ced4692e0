package registry_test

import (
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// TestAServiceGetsNoAddressOfABackend checks that a service which requests the address of a backend
// is refused, and that a random allocation skips such an address and releases it afterwards.
func TestAServiceGetsNoAddressOfABackend(t *testing.T) {
	i, r := run(t)
	i.allocator.EnableReserves(0)
	_, err := r.slices.CreateEndpointSlice(t.Context(), &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{Name: "by-hand"}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.96.0.1"}}, {Addresses: []string{"10.96.0.2"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	asked := web("asked", func(s *corev1.Service) { s.Spec.ClusterIp = "10.96.0.2" })
	_, err = r.services.CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: asked})
	if text := apierr.Describe(err); apierr.Code(err) != codes.InvalidArgument || !strings.Contains(text, "spec.clusterIPs[0]") || !strings.Contains(text, "by-hand") {
		t.Errorf("the address of a backend by request: %v", text)
	}
	random := r.create(t, web("random"))
	if got := random.GetSpec().GetClusterIp(); got != "10.96.0.3" {
		t.Errorf("got %s at random, want 10.96.0.3, the first that no backend has", got)
	}
	i.holds(t, random, "10.96.0.3")
}

// TestALoadBalancerIsAtNoAddressOfTheCluster checks that a status with the address of a node is
// refused, because nodes would redirect all traffic for that address to the service.
func TestALoadBalancerIsAtNoAddressOfTheCluster(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.PodCIDR = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")} })
	_, err := r.nodes.CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.nodes.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: "n1"},
		Status:   &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{{Type: "InternalIP", Address: "192.0.2.7"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	svc := r.create(t, web("lb", withPorts(typeLoadBalancer, port("http", 80, 0, tcp))))
	report := func(ip string, mode corev1.IPMode) error {
		_, err := r.services.UpdateServiceStatus(t.Context(), &registryv1.UpdateServiceStatusRequest{Service: &corev1.Service{
			Metadata: &corev1.ObjectMeta{Name: svc.GetMetadata().GetName()},
			Spec:     svc.GetSpec(),
			Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{
				Ingress: []*corev1.LoadBalancerIngress{{Ip: ip, IpMode: mode}},
			}},
		}})
		return err
	}
	vip, proxy := corev1.IPMode_IP_MODE_VIP, corev1.IPMode_IP_MODE_PROXY
	for ip, why := range map[string]string{
		"192.0.2.7": "address of a node (n1)", "10.96.7.7": "range of the virtual IPs", "10.244.1.1": "range of the pods", "127.0.0.1": "loopback",
	} {
		err := report(ip, vip)
		if text := apierr.Describe(err); apierr.Code(err) != codes.InvalidArgument || !strings.Contains(text, "status.loadBalancer.ingress[0].ip") || !strings.Contains(text, why) {
			t.Errorf("%s: %v, want a violation with %q", ip, text, why)
		}
	}
	if err := report("192.0.2.7", proxy); err != nil {
		t.Errorf("a proxy at the address of a node: %v", err)
	}
	if err := report("192.0.2.100", vip); err != nil {
		t.Errorf("an address of nobody: %v", err)
	}
}

// TestAddressesOfOwnedPods checks which addresses the pods of workloads and registrars may have: the
// addresses of their node, and for registrars also the ranges that an operator has given to their node.
func TestAddressesOfOwnedPods(t *testing.T) {
	_, r := run(t)
	for name, node := range map[string]struct {
		address string
		ranges  []string
	}{"n1": {"192.0.2.1", []string{"172.16.0.0/12", "fd00:1::/64"}}, "n2": {"192.0.2.2", []string{"10.20.0.0/16"}}, "n3": {"192.0.2.3", nil}} {
		o := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.NodeSpec{PodCidrs: node.ranges}}
		if _, err := r.nodes.CreateNode(within(t), &registryv1.CreateNodeRequest{Node: o}); err != nil {
			t.Fatal(err)
		}
		o.Status = &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{{Type: "InternalIP", Address: node.address}}}
		if _, err := r.nodes.UpdateNodeStatus(within(t), &registryv1.UpdateNodeStatusRequest{Node: o}); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(owner, node string) *corev1.Pod {
		o := &corev1.Pod{Metadata: &corev1.ObjectMeta{GenerateName: "p-"}, Spec: &corev1.PodSpec{NodeName: node}}
		if owner != "" {
			o.Metadata.Annotations = map[string]string{object.AnnotationWorkload: owner}
		}
		res, err := r.pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: o})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetPod()
	}
	for _, test := range []struct {
		owner, node, address string
		why                  string // "": it may
	}{
		{"registrar/n1", "n1", "192.0.2.1", ""}, {"registrar/n1", "n1", "172.17.0.2", ""}, {"registrar/n1/default", "n1", "fd00:1::7", ""},
		{"registrar/n1", "n1", "192.0.2.2", "spec.podCIDRs"}, {"registrar/n1", "n1", "10.20.0.7", "spec.podCIDRs"}, {"registrar/n1", "n1", "203.0.113.9", "spec.podCIDRs"},
		{"registrar/n1", "n1", "fd00:2::7", "spec.podCIDRs"}, {"registrar/n3", "n3", "172.17.0.2", `node "n3" has no such address or range`}, {"registrar/n4", "n4", "172.17.0.2", "spec.podCIDRs"},
		{"workload/n1", "n1", "192.0.2.1", ""}, {"workload/n1", "n1", "172.17.0.2", "a workload's pod has addresses of its node"},
		{"", "n1", "203.0.113.9", ""},
	} {
		o := pod(test.owner, test.node)
		o.Status = &corev1.PodStatus{PodIp: test.address}
		_, err := r.pods.UpdatePodStatus(within(t), &registryv1.UpdatePodStatusRequest{Pod: o})
		text := apierr.Describe(err)
		if test.why == "" && err != nil || test.why != "" && (apierr.Code(err) != codes.InvalidArgument || !strings.Contains(text, "status.podIPs[0]") || !strings.Contains(text, test.why)) {
			t.Errorf("%s of %q on %s: %v, want %q", test.address, test.owner, test.node, text, test.why)
		}
	}
}
