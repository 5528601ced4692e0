package loadbalancers

import (
	"fmt"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// agent speaks to lbctl as a node's agent does.
type agent struct {
	*installation
	node   string
	stream loadbalancerv1.AnnouncerService_AnnounceClient
	sent   uint64
	last   *loadbalancerv1.AnnounceResponse
}

// connect opens the stream of a node, once lbctl leads.
func (i *installation) connect(node string) *agent {
	i.Helper()
	a := &agent{installation: i, node: node}
	client := loadbalancerv1.NewAnnouncerServiceClient(i.dial("lbctl"))
	kittest.Eventually(i.T, "a stream of "+node, func() (err error) {
		if a.stream, err = client.Announce(i.Context()); err != nil {
			return err
		}
		a.last, err = a.stream.Recv() // the greeting
		return err
	})
	return a
}

// exchange sends a message and returns the addresses of the answer to it.
func (a *agent) exchange() ([]string, error) {
	a.sent++
	message := &loadbalancerv1.AnnounceRequest{
		Node: a.node, Instance: a.node + "-1", Sequence: a.sent, FollowedAnswer: a.last.GetSequence(),
		Addresses: a.last.GetAddresses(), Subnets: []string{"192.0.2.0/24", "2001:db8::/64"}, Ready: true,
	}
	if err := a.stream.Send(message); err != nil {
		return nil, err
	}
	for {
		answer, err := a.stream.Recv()
		if err != nil {
			return nil, err
		}
		a.last = answer
		if answer.GetAnsweredMessage() >= a.sent {
			return answer.GetAddresses(), nil
		}
	}
}

// awaitAnnouncing exchanges messages until the node has exactly these addresses to announce, and has told
// lbctl that it announces them.
func (a *agent) awaitAnnouncing(want ...string) {
	a.Helper()
	kittest.Eventually(a.T, fmt.Sprintf("%s to announce %v", a.node, want), func() error {
		got, err := a.exchange()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it is to announce %v", got)
		}
		return err
	})
	if _, err := a.exchange(); err != nil {
		a.Fatal(err)
	}
}

// awaitAnnounced waits until the condition of a service says that nodes announce it, or that they do
// not, with a text.
func (i *installation) awaitAnnounced(name string, state corev1.ConditionStatus, text string) *corev1.Condition {
	i.Helper()
	var condition *corev1.Condition
	kittest.Eventually(i.T, fmt.Sprintf("%s: %s %q", name, state, text), func() error {
		condition = object.Condition(i.get(name).GetStatus().GetConditions(), object.ConditionAnnounced)
		if condition.GetStatus() != state || condition.GetMessage() != text {
			return fmt.Errorf("it is %v", condition)
		}
		return nil
	})
	return condition
}

// TestOneNodeAnnouncesAnAddress connects two agents to a whole lbctl. One gets the address, and the other
// gets it when the first has gone. The service names the node.
func TestOneNodeAnnouncesAnAddress(t *testing.T) {
	i := install(t, func(c *lbctl.Config) { c.Addr = freeAddr(t) })
	nodes := registryv1.NewNodeServiceClient(i.dial("registry"))
	for _, name := range []string{"a", "b"} {
		if _, err := nodes.CreateNode(t.Context(), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}}}); err != nil {
			t.Fatal(err)
		}
	}
	i.create(balanced("web"))
	got := i.awaitAddresses("web", 1)[0]
	i.awaitAnnounced("web", corev1.ConditionStatus_CONDITION_STATUS_FALSE,
		"nobody announces "+got+": no node agent is connected: set -announce-interfaces and -lbctl of the agents")

	a := i.connect("a")
	a.awaitAnnouncing(got)
	first := i.awaitAnnounced("web", corev1.ConditionStatus_CONDITION_STATUS_TRUE, "node a announces "+got)
	b := i.connect("b")
	b.awaitAnnouncing()

	if err := a.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	b.awaitAnnouncing(got)
	second := i.awaitAnnounced("web", corev1.ConditionStatus_CONDITION_STATUS_TRUE, "node b announces "+got)
	if !second.GetLastTransitionTime().AsTime().After(first.GetLastTransitionTime().AsTime()) {
		t.Errorf("the address has moved, but the condition has the time %v, before %v", second.GetLastTransitionTime(), first.GetLastTransitionTime())
	}

	// With the policy Local no node may announce an address without a backend.
	i.update("web", func(svc *corev1.Service) {
		svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	})
	b.awaitAnnouncing()
}
