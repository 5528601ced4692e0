package spec_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// repeat returns n entries.
func repeat[T any](n int, entry func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = entry(i)
	}
	return all
}

// TestFieldLimits fills each bounded field of the kinds that node agents and workloads write, and of services and
// their endpoints, to its limit, which is valid, and one further, which is one violation.
func TestFieldLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	nodeWith := func(change func(n int, node *corev1.Node)) func(int) object.Object {
		return func(n int) object.Object {
			node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}, Spec: &corev1.NodeSpec{}, Status: &corev1.NodeStatus{}}
			change(n, node)
			return node
		}
	}
	podWith := func(change func(n int, p *corev1.Pod)) func(int) object.Object {
		return func(n int) object.Object {
			p := pod(func(p *corev1.Pod) { p.Status = &corev1.PodStatus{} })
			change(n, p)
			return p
		}
	}
	eventWith := func(change func(n int, e *corev1.Event)) func(int) object.Object {
		return func(n int) object.Object {
			e := example("Event").(*corev1.Event)
			change(n, e)
			return e
		}
	}
	labels := func(meta *corev1.ObjectMeta, n int) {
		meta.Labels = map[string]string{}
		for i := range n {
			meta.Labels[fmt.Sprint("l", i)] = ""
		}
	}
	sliceWith := func(change func(n int, s *corev1.EndpointSlice)) func(int) object.Object {
		return func(n int) object.Object {
			s := slice()
			change(n, s)
			return s
		}
	}
	endpointsWith := func(change func(n int, e *corev1.Endpoints)) func(int) object.Object {
		return func(n int) object.Object {
			e := &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "web"}, Subsets: []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.0.0.1"}}}}}
			change(n, e)
			return e
		}
	}
	for _, test := range []struct {
		field string
		limit int
		with  func(n int) object.Object
	}{
		{"spec.ports", 20000, func(n int) object.Object {
			svc := web()
			svc.Spec.Ports = repeat(n, func(i int) *corev1.ServicePort {
				return &corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1), TargetPort: number(80)}
			})
			return svc
		}},
		{"ports", 20000, sliceWith(func(n int, s *corev1.EndpointSlice) {
			s.Ports = repeat(n, func(i int) *corev1.EndpointPort {
				return &corev1.EndpointPort{Name: new(fmt.Sprint("p", i)), Port: new(int32(80))}
			})
		})},
		{"endpoints", 1000, sliceWith(func(n int, s *corev1.EndpointSlice) {
			s.Endpoints = repeat(n, func(int) *corev1.Endpoint { return &corev1.Endpoint{Addresses: []string{"10.0.0.1"}} })
		})},
		{"endpoints[0].addresses", 100, sliceWith(func(n int, s *corev1.EndpointSlice) {
			s.Endpoints = []*corev1.Endpoint{{Addresses: repeat(n, func(int) string { return "10.0.0.1" })}}
		})},
		{"metadata.labels", 133, sliceWith(func(n int, s *corev1.EndpointSlice) { labels(s.Metadata, n) })},
		{"metadata.labels", 130, endpointsWith(func(n int, e *corev1.Endpoints) { labels(e.Metadata, n) })},
		{"subsets", 1000, endpointsWith(func(n int, e *corev1.Endpoints) {
			e.Subsets[0].Addresses = repeat(n, func(int) *corev1.EndpointAddress { return &corev1.EndpointAddress{Ip: "10.0.0.1"} })
		})},
		{"subsets[0].ports", 20000, endpointsWith(func(n int, e *corev1.Endpoints) {
			e.Subsets[0].Ports = repeat(n, func(i int) *corev1.EndpointSubsetPort {
				return &corev1.EndpointSubsetPort{Name: fmt.Sprint("p", i), Port: 80}
			})
		})},
		{"metadata.labels", 128, podWith(func(n int, p *corev1.Pod) { labels(p.Metadata, n) })},
		{"metadata.finalizers", 32, nodeWith(func(n int, node *corev1.Node) {
			node.Metadata.Finalizers = repeat(n, func(i int) string { return fmt.Sprint("f", i) })
		})},
		{"metadata.ownerReferences", 32, podWith(func(n int, p *corev1.Pod) {
			p.Metadata.OwnerReferences = repeat(n, func(int) *corev1.OwnerReference { return &corev1.OwnerReference{Kind: "K", Name: "n", Uid: "u"} })
		})},
		{"metadata.ownerReferences[0].uid", 253, podWith(func(n int, p *corev1.Pod) {
			p.Metadata.OwnerReferences = []*corev1.OwnerReference{{Kind: "K", Name: "n", Uid: long(n)}}
		})},
		{"status.conditions", 32, nodeWith(func(n int, node *corev1.Node) {
			node.Status.Conditions = repeat(n, func(i int) *corev1.Condition {
				return &corev1.Condition{Type: fmt.Sprint("C", i), Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE}
			})
		})},
		{"status.conditions[0].message", 1024, podWith(func(n int, p *corev1.Pod) {
			p.Status.Conditions = []*corev1.Condition{{Type: "C", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Message: long(n)}}
		})},
		{"status.conditions[0].reason", 128, podWith(func(n int, p *corev1.Pod) {
			p.Status.Conditions = []*corev1.Condition{{Type: "C", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE, Reason: long(n)}}
		})},
		{"status.addresses", 64, nodeWith(func(n int, node *corev1.Node) {
			node.Status.Addresses = repeat(n, func(int) *corev1.NodeAddress { return &corev1.NodeAddress{Type: "Hostname", Address: "n1"} })
		})},
		{"status.addresses[0].address", 256, nodeWith(func(n int, node *corev1.Node) {
			node.Status.Addresses = []*corev1.NodeAddress{{Type: "Hostname", Address: long(n)}}
		})},
		{"spec.taints", 64, nodeWith(func(n int, node *corev1.Node) {
			node.Spec.Taints = repeat(n, func(i int) *corev1.Taint { return &corev1.Taint{Key: fmt.Sprint("t", i), Effect: "NoSchedule"} })
		})},
		{"status.kernelVersion", 256, nodeWith(func(n int, node *corev1.Node) { node.Status.KernelVersion = long(n) })},
		{"status.agentVersion", 256, nodeWith(func(n int, node *corev1.Node) { node.Status.AgentVersion = long(n) })},
		{"status.agentAddress", 256, nodeWith(func(n int, node *corev1.Node) { node.Status.AgentAddress = long(n) })},
		{"status.message", 1024, podWith(func(n int, p *corev1.Pod) { p.Status.Message = long(n) })},
		{"status.reason", 128, podWith(func(n int, p *corev1.Pod) { p.Status.Reason = long(n) })},
		{"spec.readinessGates", 32, podWith(func(n int, p *corev1.Pod) {
			p.Spec.ReadinessGates = repeat(n, func(i int) *corev1.PodReadinessGate {
				return &corev1.PodReadinessGate{ConditionType: fmt.Sprint("g", i)}
			})
		})},
		{"spec.containers", 64, podWith(func(n int, p *corev1.Pod) {
			p.Spec.Containers = repeat(n, func(i int) *corev1.Container { return &corev1.Container{Name: fmt.Sprint("c", i)} })
		})},
		{"spec.containers[0].ports", 128, podWith(func(n int, p *corev1.Pod) {
			p.Spec.Containers[0].Ports = repeat(n, func(i int) *corev1.ContainerPort { return &corev1.ContainerPort{ContainerPort: int32(i + 1)} })
		})},
		{"spec.containers[0].env", 512, podWith(func(n int, p *corev1.Pod) {
			p.Spec.Containers[0].Env = repeat(n, func(i int) *corev1.EnvVar { return &corev1.EnvVar{Name: fmt.Sprint("E", i)} })
		})},
		{"spec.containers[0].env[0].name", 253, podWith(func(n int, p *corev1.Pod) { p.Spec.Containers[0].Env = []*corev1.EnvVar{{Name: long(n)}} })},
		{"message", 1024, eventWith(func(n int, e *corev1.Event) { e.Message = long(n) })},
		{"reason", 128, eventWith(func(n int, e *corev1.Event) { e.Reason = long(n) })},
		{"reportingComponent", 128, eventWith(func(n int, e *corev1.Event) { e.ReportingComponent = long(n) })},
		{"reportingInstance", 128, eventWith(func(n int, e *corev1.Event) { e.ReportingInstance = long(n) })},
		{"regarding.name", 253, eventWith(func(n int, e *corev1.Event) { e.Regarding.Name = long(n) })},
		{"regarding.uid", 253, eventWith(func(n int, e *corev1.Event) { e.Regarding.Uid = long(n) })},
		{"regarding.fieldPath", 1024, eventWith(func(n int, e *corev1.Event) { e.Regarding.FieldPath = long(n) })},
	} {
		t.Run(test.field, func(t *testing.T) {
			validate := func(n int) []string {
				o := test.with(n)
				kinds.Of(o).Default(o)
				var got []string
				for _, v := range kinds.Of(o).Validate(o, spec.Rules{}) {
					got = append(got, v.String())
				}
				return got
			}
			if got := validate(test.limit); len(got) > 0 {
				t.Errorf("%d: %q", test.limit, got)
			}
			got := validate(test.limit + 1)
			if len(got) != 1 || !strings.HasPrefix(got[0], test.field+": ") || !strings.Contains(got[0], fmt.Sprint(test.limit)) {
				t.Errorf("%d: %q, want one violation that names the limit", test.limit+1, got)
			}
		})
	}
}

func TestShortenMessage(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 1024)} {
		if got := spec.ShortenMessage(text); got != text {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
	}
	if got := spec.ShortenMessage(strings.Repeat("x", 1023) + "é"); got != strings.Repeat("x", 1023) {
		t.Errorf("the message ends with %q", got[1020:])
	}
}
