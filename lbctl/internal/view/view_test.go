package view

import (
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

func service(name, share string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Annotations: map[string]string{object.AnnotationBalancerShare: share}},
		Spec:     &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER},
	}
}

func TestKeeps(t *testing.T) {
	other := service("web", "")
	other.Spec.Type = corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP
	marked := other.CloneVT()
	marked.Metadata.Finalizers = []string{object.FinalizerLoadBalancer}
	for name, c := range map[string]struct {
		o    object.Object
		keep bool
	}{
		"a load balancer":            {service("web", ""), true},
		"a service":                  {other, false},
		"one that was a balancer":    {marked, true},
		"a node, whatever it may be": {&corev1.Node{}, true},
	} {
		if got := Keeps(c.o); got != c.keep {
			t.Errorf("%s is kept: %v", name, got)
		}
	}
}

// TestSharersFollowTheirKeys moves a service from one key to another, and deletes it.
func TestSharersFollowTheirKeys(t *testing.T) {
	v := New(nil)
	a, b, none := service("web", "a"), service("web", "b"), service("web", "")
	count := func() [2]int {
		return [2]int{len(v.Sharers(spec.OwnerOfAddresses(a).UID)), len(v.Sharers(spec.OwnerOfAddresses(b).UID))}
	}
	var old object.Object
	for i, step := range []struct {
		next object.Object
		want [2]int
	}{{a, [2]int{1, 0}}, {b, [2]int{0, 1}}, {none, [2]int{0, 0}}, {a, [2]int{1, 0}}, {nil, [2]int{0, 0}}} {
		v.Apply([]changes.Change{{Kind: "Service", Old: old, New: step.next}})
		if got := count(); got != step.want {
			t.Errorf("after step %d the keys have %v services, want %v", i, got, step.want)
		}
		old = step.next
	}
	if len(v.Services()) != 0 {
		t.Errorf("services are left: %v", v.Services())
	}
}

// TestEligibleNodes checks a node with each reason to be left out, and a node that is not ready.
func TestEligibleNodes(t *testing.T) {
	v := New(nil)
	node := func(name string, change func(*corev1.Node)) changes.Change {
		n := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}, Spec: &corev1.NodeSpec{}, Status: &corev1.NodeStatus{}}
		change(n)
		return changes.Change{Kind: "Node", New: n}
	}
	changed := v.Apply([]changes.Change{
		node("z-ready", func(*corev1.Node) {}),
		node("a-sick", func(n *corev1.Node) {
			n.Status.Conditions = []*corev1.Condition{{Type: object.ConditionReady, Status: corev1.ConditionStatus_CONDITION_STATUS_FALSE}}
			n.Spec.Taints = []*corev1.Taint{{Key: "example.com/other"}}
		}),
		node("excluded", func(n *corev1.Node) {
			n.Metadata.Labels = map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": "false"}
		}),
		node("deleted", func(n *corev1.Node) { n.Spec.Taints = []*corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} }),
	})
	var names []string
	for _, n := range v.EligibleNodes() {
		names = append(names, n.GetMetadata().GetName())
	}
	if len(names) != 2 || names[0] != "a-sick" || names[1] != "z-ready" || !changed {
		t.Errorf("eligible are %v", names)
	}
	if v.Apply([]changes.Change{{Kind: "Service", New: service("web", "")}}) {
		t.Error("a service counts as a change of nodes")
	}
}
