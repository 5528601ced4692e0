package workload

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Ports are the ports on which every backend listens.
var Ports = []int32{8080, 8081}

// address returns the nth address of the actor's pods.
func (a *Actor) address(n int, v6 bool) string {
	if v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 2: 2, 3: 0x44, 7: byte(100 + a.number), 15: byte(n + 1)}).String()
	}
	return fmt.Sprintf("10.244.%d.%d", 100+a.number, n+1)
}

func (a *Actor) togglePod(name string) []Step {
	if pod := a.pods[name]; pod != nil {
		delete(a.pods, name)
		return []Step{{Delete, pod}}
	}
	pod := a.newPod(name)
	a.pods[name] = pod
	return []Step{{Create, object.Clone(pod)}}
}

// remakePod deletes a pod and creates it again, mostly with another address and on another node.
func (a *Actor) remakePod(name string) []Step {
	if a.pods[name] == nil {
		return a.togglePod(name)
	}
	return append(a.togglePod(name), a.togglePod(name)...)
}

// changePod changes a pod's readiness, or the services that select it.
func (a *Actor) changePod(name string) []Step {
	old := a.pods[name]
	if old == nil {
		return a.togglePod(name)
	}
	pod := object.Clone(old)
	if a.chance(60) {
		ready := old.GetStatus().GetConditions()[0].GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE
		pod.Status.Conditions = readiness(!ready)
	} else {
		pod.Metadata.Labels = a.selector()
	}
	a.pods[name] = pod
	return []Step{{Update, object.Clone(pod)}}
}

func (a *Actor) newPod(name string) *corev1.Pod {
	var taken, all []string
	for _, other := range slices.Sorted(maps.Keys(a.pods)) {
		taken = append(taken, a.pods[other].GetStatus().GetPodIp())
	}
	for n := range podAddresses {
		all = append(all, a.address(n, false))
	}
	at, _ := pick(a, slices.Clone(all), taken) // there are more addresses than names
	now := int64(0)
	pod := &corev1.Pod{
		Metadata: a.meta(name),
		Spec:     &corev1.PodSpec{TerminationGracePeriodSeconds: &now},
		Status: &corev1.PodStatus{
			Phase: corev1.PodPhase_POD_PHASE_RUNNING, Conditions: readiness(a.chance(80)), PodIp: at,
			PodIps: []string{at, a.address(slices.Index(all, at), true)},
		},
	}
	pod.Metadata.Labels = a.selector()
	if a.chance(70) {
		pod.Spec.NodeName = a.nodes[a.random.IntN(len(a.nodes))]
	}
	return pod
}

func readiness(ready bool) []*corev1.Condition {
	status := corev1.ConditionStatus_CONDITION_STATUS_FALSE
	if ready {
		status = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	}
	return []*corev1.Condition{{Type: "Ready", Status: status}}
}

// nextSlice creates, changes or deletes a slice of a service without a selector. The service need
// not exist.
func (a *Actor) nextSlice(name string) []Step {
	old := a.slices[name]
	if old != nil && a.chance(40) {
		delete(a.slices, name)
		return []Step{{Delete, old}}
	}
	slice := &corev1.EndpointSlice{
		Metadata: a.meta(name), AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Endpoints: a.endpoints(),
	}
	tcp := corev1.Protocol_PROTOCOL_TCP
	for n, port := range []string{"http", "alt"} {
		number := Ports[(n+a.random.IntN(2))%2]
		slice.Ports = append(slice.Ports, &corev1.EndpointPort{Name: &port, Protocol: tcp, Port: &number})
	}
	if old != nil { // a slice keeps its service, which makes histories easier to read
		slice.Metadata.Labels = old.GetMetadata().GetLabels()
	} else {
		slice.Metadata.Labels = map[string]string{object.LabelServiceName: fmt.Sprintf("%s%d", manualService, serviceNames-1-a.random.IntN(2))}
	}
	a.slices[name] = slice
	verb := Update
	if old == nil {
		verb = Create
	}
	return []Step{{verb, object.Clone(slice)}}
}

// endpoints returns up to four endpoints.
func (a *Actor) endpoints() []*corev1.Endpoint {
	var all []*corev1.Endpoint
	for _, n := range a.random.Perm(podAddresses)[:a.random.IntN(5)] {
		ready := a.chance(80)
		all = append(all, &corev1.Endpoint{
			Addresses: []string{a.address(n, false)}, Conditions: &corev1.EndpointConditions{Ready: &ready},
		})
	}
	return all
}
