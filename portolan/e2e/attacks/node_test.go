package attacks

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// getNode returns a node, which has its status since the installation is there.
func getNode(t *testing.T, conn grpc.ClientConnInterface, name string) *corev1.Node {
	t.Helper()
	answer, err := registryv1.NewNodeServiceClient(conn).GetNode(t.Context(), &registryv1.GetNodeRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetNode()
}

// TestAgentCannotMoveTrafficByItsNode changes labels, taints and pod ranges of n1's own Node with the
// certificate of its agent, by the only write to a Node that agents may make. With a zone or a pod range of
// its choice, the node would get the traffic of others.
func TestAgentCannotMoveTrafficByItsNode(t *testing.T) {
	i := install(t)
	before := getNode(t, i.Conn, "n1")
	i.Nodes[0].Process.Stop() // it would write its own status
	nodes := registryv1.NewNodeServiceClient(i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt()))
	node := before.CloneVT()
	node.Metadata.ResourceVersion = 0
	node.Metadata.Labels = map[string]string{object.LabelZone: "everybodys"}
	node.Metadata.Annotations = map[string]string{"example.com/mine": "yes"}
	node.Spec = &corev1.NodeSpec{PodCidr: "10.96.0.0/24", PodCidrs: []string{"10.96.0.0/24"}, Unschedulable: true, Taints: []*corev1.Taint{{Key: "mine", Effect: "NoSchedule"}}}
	node.Status.Conditions = append(node.Status.Conditions, &corev1.Condition{Type: "Mine", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE})
	written, err := nodes.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	after := written.GetNode()
	if !maps.Equal(after.GetMetadata().GetLabels(), before.GetMetadata().GetLabels()) || len(after.GetMetadata().GetAnnotations()) > 0 ||
		!proto.Equal(after.GetSpec(), before.GetSpec()) {
		t.Errorf("the Node is now %v", after)
	}
	if n := len(after.GetStatus().GetConditions()); n != len(node.GetStatus().GetConditions()) {
		t.Errorf("the write of the status has %d conditions", n)
	}
	for what, attempt := range map[string]func() error{
		"the whole Node": func() error {
			_, err := nodes.UpdateNode(t.Context(), &registryv1.UpdateNodeRequest{Node: node})
			return err
		},
		"an apply": func() error {
			_, err := client.New(i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt())).Apply(t.Context(), node, false)
			return err
		},
		"its deletion, to make it anew with other labels": func() error {
			_, err := nodes.DeleteNode(t.Context(), &registryv1.DeleteNodeRequest{Name: "n1"})
			return err
		},
	} {
		if err := attempt(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNodesCertificateWritesItsOwnNodeOnly tries the writes of other roles with the certificate of
// a node agent.
func TestNodesCertificateWritesItsOwnNodeOnly(t *testing.T) {
	i := install(t)
	conn := i.DialAs(i.Issue("nodeagent/n1", time.Hour), identity.Registry, i.RegistryAt())
	nodes := registryv1.NewNodeServiceClient(conn)
	if _, err := nodes.GetNode(t.Context(), &registryv1.GetNodeRequest{Name: "n2"}); status.Code(err) != codes.NotFound {
		t.Errorf("a read of another Node: %v", err)
	}
	victim := getNode(t, i.Conn, "n2")
	victim.Status.Addresses = nil
	attempts := map[string]func() error{
		"a Service": func() error {
			_, err := registryv1.NewServiceServiceClient(conn).CreateService(t.Context(), &registryv1.CreateServiceRequest{Service: &corev1.Service{}})
			return err
		},
		"an EndpointSlice": func() error {
			_, err := registryv1.NewEndpointSliceServiceClient(conn).CreateEndpointSlice(t.Context(), &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{}})
			return err
		},
		"another Node": func() error {
			_, err := nodes.UpdateNodeStatus(t.Context(), &registryv1.UpdateNodeStatusRequest{Node: victim})
			return err
		},
	}
	for what, attempt := range attempts {
		if err := attempt(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
}
