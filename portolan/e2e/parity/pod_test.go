package parity

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/portolan/e2e/labtest"
)

// pod is a namespace with servers, and its Pod object.
type pod struct {
	scene     *scene
	name      string
	node      *labtest.Node
	namespace *topology.Namespace
	addrs     [2]netip.Addr
}

// pods numbers the pods of all scenes. plugged counts the pods of each node, so that each pod has
// an address that was not used before.
var (
	pods    atomic.Uint32
	plugged [3]atomic.Uint32
)

// gate is a readiness gate of pods. The test sets its condition.
const gate = "parity.test/open"

// podOption changes a pod before it is made.
type podOption func(*corev1.Pod)

// gated makes a pod that is ready only after open.
func gated(p *corev1.Pod) {
	p.Spec.ReadinessGates = []*corev1.PodReadinessGate{{ConditionType: gate}}
}

// pod starts a pod behind the service app, on the node with this index.
func (s *scene) pod(app string, node int, options ...podOption) *pod {
	s.Helper()
	p := s.plug(app, node)
	p.serve()
	p.create(app, options...)
	return p
}

// hostPod starts a pod in the host network of a node. It listens on each address of the node, so
// that answers by UDP come from the address that was asked.
func (s *scene) hostPod(app string, node int, port uint16) *pod {
	s.Helper()
	n := s.lab.Nodes[node]
	name := fmt.Sprintf("%s-%d", app, pods.Add(1))
	p := &pod{scene: s, name: name, node: n, namespace: n.Namespace, addrs: n.Addresses}
	for _, addr := range p.addrs {
		p.listen(netip.AddrPortFrom(addr, port))
	}
	p.create(app, func(o *corev1.Pod) { o.Spec.HostNetwork = true })
	return p
}

// client starts a pod without an object, which no service selects.
func (s *scene) client(node int) *pod {
	s.Helper()
	return s.plug("client", node)
}

// plug makes the namespace of a pod.
func (s *scene) plug(app string, node int) *pod {
	s.Helper()
	number := pods.Add(1)
	n := s.lab.Nodes[node]
	p := &pod{scene: s, name: fmt.Sprintf("%s-%d", app, number), node: n}
	place := plugged[node].Add(1)
	for family, r := range n.PodRanges {
		p.addrs[family] = nth(r, place)
	}
	name := fmt.Sprintf("pod%d", number)
	p.namespace = topology.New(s.T, name)
	labtest.Plug(s.T, n.Namespace, p.namespace, name, p.addrs)
	return p
}

// nth returns the nth address of a range. n must be below 256.
func nth(r netip.Prefix, n uint32) netip.Addr {
	b := r.Addr().AsSlice()
	b[len(b)-1] = byte(n)
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// create creates the pod's object. Its node's agent makes it ready unless it is gated.
func (p *pod) create(app string, options ...podOption) {
	s := p.scene
	s.Helper()
	now := int64(0)
	o := &corev1.Pod{
		Metadata: s.meta(p.name),
		Spec: &corev1.PodSpec{
			NodeName: p.node.Name, TerminationGracePeriodSeconds: &now,
			Containers: []*corev1.Container{{Name: "main", Ports: []*corev1.ContainerPort{
				{Name: "http", ContainerPort: 8080, Protocol: corev1.Protocol_PROTOCOL_TCP},
			}}},
		},
		Status: &corev1.PodStatus{
			Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: p.addrs[0].String(), PodIps: []string{p.addrs[0].String(), p.addrs[1].String()},
		},
	}
	o.Metadata.Labels = map[string]string{"app": app}
	for _, option := range options {
		option(o)
	}
	_, err := s.pods().CreatePod(s.Context(), &registryv1.CreatePodRequest{Pod: o})
	if err == nil { // a create ignores the status
		_, err = s.pods().UpdatePodStatus(s.Context(), &registryv1.UpdatePodStatusRequest{Pod: o})
	}
	if err != nil {
		s.Fatalf("create pod %s: %v", p.name, err)
	}
}

// open makes a gated pod ready or not ready.
func (p *pod) open(ready bool) {
	s := p.scene
	s.Helper()
	status := corev1.ConditionStatus_CONDITION_STATUS_FALSE
	if ready {
		status = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	}
	s.eventually("the gate of "+p.name, func() error {
		got, err := s.pods().GetPod(s.Context(), &registryv1.GetPodRequest{Namespace: s.namespace, Name: p.name})
		if err != nil {
			return err
		}
		o := got.GetPod() // with its version, because the agent writes the same status
		var conditions []*corev1.Condition
		for _, c := range o.GetStatus().GetConditions() {
			if c.GetType() != gate {
				conditions = append(conditions, c)
			}
		}
		o.Status.Conditions = append(conditions, &corev1.Condition{Type: gate, Status: status})
		_, err = s.pods().UpdatePodStatus(s.Context(), &registryv1.UpdatePodStatusRequest{Pod: o})
		return err
	})
}

// delete deletes the pod's object. Its servers continue to run.
func (p *pod) delete() {
	p.scene.Helper()
	_, err := p.scene.pods().DeletePod(p.scene.Context(), &registryv1.DeletePodRequest{Namespace: p.scene.namespace, Name: p.name})
	if err != nil {
		p.scene.Fatalf("delete pod %s: %v", p.name, err)
	}
}
