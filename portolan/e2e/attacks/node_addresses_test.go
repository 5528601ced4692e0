package attacks

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/identity"
)

// TestAgentCannotClaimForeignAddresses claims addresses of other nodes, of pods, of services and of
// foreign machines with the certificate of n1's agent. Its workloads could otherwise have pods at
// these addresses.
func TestAgentCannotClaimForeignAddresses(t *testing.T) {
	i := labtest.Install(t, labtest.Options{
		Secured: true,
		Nodes:   []labtest.NodeOptions{{Name: "n1", ProxyMode: "userspace"}, {Name: "n2", ProxyMode: "userspace"}},
		Flags: map[string][]string{"registry": {
			"-node-address-ranges", "10.0.0.0/8,172.16.0.0/12,192.0.2.0/24,198.51.100.0/24,fd00::/8", "-pod-cidr", "10.244.0.0/16,fd00:244::/48",
		}},
	})
	if _, err := registryv1.NewNodeServiceClient(i.Conn).CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: "n3"}, Spec: &corev1.NodeSpec{PodCidr: "192.0.2.64/26", PodCidrs: []string{"192.0.2.64/26"}},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := registryv1.NewServiceServiceClient(i.Conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "shop", Namespace: "default"},
		Spec:     &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}, ExternalIps: []string{"198.51.100.7"}},
	}}); err != nil {
		t.Fatal(err)
	}
	nodes := registryv1.NewNodeServiceClient(i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt()))
	claim := func(kind, ip string) error {
		answer, err := nodes.GetNode(t.Context(), &registryv1.GetNodeRequest{Name: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		node := answer.GetNode()
		node.Metadata.ResourceVersion = 0
		node.Status.Addresses = append(node.Status.Addresses, &corev1.NodeAddress{Type: kind, Address: ip})
		_, err = nodes.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: node})
		return err
	}
	for ip, reason := range map[string]string{
		i.Nodes[1].Addresses[0].String(): `is the address of node "n2"`, i.Nodes[1].Addresses[1].String(): `is the address of node "n2"`,
		"10.96.0.1": "range of the virtual IPs", "10.244.2.7": "range of the pods", "192.0.2.70": `pod range 192.0.2.64/26 of node "n3"`,
		"198.51.100.7": "external address of service default/shop", "9.9.9.9": "node-address-ranges", "127.0.0.1": "node-address-ranges",
		"169.254.169.254": "node-address-ranges", "224.0.0.1": "no unicast address",
	} {
		for _, kind := range []string{"InternalIP", "ExternalIP"} {
			if err := claim(kind, ip); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s %s: %v, want %q", kind, ip, err, reason)
			}
		}
	}
	if err := claim("InternalIP", "192.0.2.9"); err != nil {
		t.Errorf("a free address in the operator's ranges: %v", err)
	}
	late := registryv1.NewNodeServiceClient(i.DialAs(i.Issue("nodeagent/n9", time.Hour), identity.Registry, i.RegistryAt()))
	_, err := late.CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: "n9"}, Spec: &corev1.NodeSpec{PodCidr: "10.1.0.0/16", PodCidrs: []string{"10.1.0.0/16"}},
	}})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "pod ranges of a Node are the operator's") {
		t.Errorf("a Node with pod ranges: %v", err)
	}
}
