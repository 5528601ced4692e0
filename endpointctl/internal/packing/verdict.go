package packing

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Node holds the properties of a node that its endpoints depend on.
type Node struct {
	Zone  string
	Ready bool
	// IPv4 and IPv6 are the addresses of pods in the host network: the first internal address of
	// each family.
	IPv4, IPv6 netip.Addr
}

// NodeOf converts a node. A node without a Ready condition counts as ready.
func NodeOf(n *corev1.Node) Node {
	status := object.Condition(n.GetStatus().GetConditions(), object.ConditionReady).GetStatus()
	node := Node{
		Zone: n.GetMetadata().GetLabels()[object.LabelZone],
		Ready: status != corev1.ConditionStatus_CONDITION_STATUS_FALSE &&
			status != corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN,
	}
	for _, a := range n.GetStatus().GetAddresses() {
		addr, err := netip.ParseAddr(a.GetAddress())
		switch {
		case a.GetType() != "InternalIP" || err != nil || addr.IsLoopback():
		case addr.Unmap().Is4() && !node.IPv4.IsValid():
			node.IPv4 = addr.Unmap()
		case addr.Is6() && !addr.Is4In6() && !node.IPv6.IsValid():
			node.IPv6 = addr
		}
	}
	return node
}

// Nodes returns a node by its name.
type Nodes func(name string) (Node, bool)

// PodVerdict is the decision whether a pod is behind a service, with the reason.
type PodVerdict struct {
	Pod      *corev1.Pod
	Selected bool
	Ready    bool
	Serving  bool
	Reason   string
	// Unresolved are the ports of the service that the pod lacks.
	Unresolved []string
	Addresses  []netip.Addr

	ports      *podPorts // nil if the pod is not behind the service
	node       Node
	registered bool             // the node is known, or the pod has none
	endpoints  []*endpointOfPod // one for each family of the service of which the pod has an address
}

// endpointOfPod is the endpoint of a pod in one family.
type endpointOfPod struct {
	family   corev1.AddressType
	key      string // its endpointKey
	endpoint *corev1.Endpoint
	// unplaced is set by Pack while no slice has the endpoint yet.
	unplaced bool
}

// of returns the endpoint of a family, or nil if there is none.
func (v *PodVerdict) of(family corev1.AddressType) *endpointOfPod {
	for _, e := range v.endpoints {
		if e.family == family {
			return e
		}
	}
	return nil
}

// UnmanagedReason returns the reason why a service gets no endpoints from pods. It is empty if the
// service gets them.
func UnmanagedReason(svc *corev1.Service) string {
	switch {
	case svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME:
		return "ExternalName"
	case len(svc.GetSpec().GetSelector()) == 0:
		return "no selector"
	default:
		return ""
	}
}

// EvaluatePods returns the verdicts on pods, without the refused endpoints. The verdicts are in the
// order of the pods.
func EvaluatePods(svc *corev1.Service, pods []*corev1.Pod, nodes Nodes, refused Refused) []*PodVerdict {
	verdicts, ports := make([]*PodVerdict, len(pods)), newPortResolver(svc)
	for i, pod := range pods {
		verdicts[i] = evaluate(svc, ports, pod, nodes, refused)
	}
	return verdicts
}

// evaluate returns the verdict on a pod with its endpoints.
func evaluate(svc *corev1.Service, ports *portResolver, pod *corev1.Pod, nodes Nodes, refused Refused) *PodVerdict {
	v := evaluatePod(svc, ports, pod, nodes)
	refused.Exclude(svc, &v)
	if v.Selected {
		for _, family := range families(svc) {
			if ep := endpoint(svc, &v, family); ep != nil {
				v.endpoints = append(v.endpoints, &endpointOfPod{family: family, key: endpointKey(ep), endpoint: ep})
			}
		}
	}
	return &v
}

// EvaluatePod returns the verdict on one pod of a service.
func EvaluatePod(svc *corev1.Service, pod *corev1.Pod, nodes Nodes) PodVerdict {
	return evaluatePod(svc, newPortResolver(svc), pod, nodes)
}

func evaluatePod(svc *corev1.Service, ports *portResolver, pod *corev1.Pod, nodes Nodes) PodVerdict {
	v := PodVerdict{Pod: pod}
	v.node, v.registered = nodeOfPod(pod, nodes)
	v.Addresses = addresses(pod, v.node)
	v.Reason = v.exclusionReason(svc, ports)
	if v.Reason != "" {
		return v
	}
	v.Selected = true
	v.Serving, v.Reason = serving(pod, v.node)
	terminating := pod.GetMetadata().GetDeletionTimestamp() != nil
	v.Ready = v.Serving && !terminating
	if terminating && v.Serving {
		v.Reason = "is terminating"
	}
	if svc.GetSpec().GetPublishNotReadyAddresses() && !v.Ready {
		v.Ready, v.Reason = true, v.Reason+"; published all the same (publishNotReadyAddresses)"
	}
	return v
}

// exclusionReason returns the reason why a pod is not behind a service at all. It is empty if the
// pod is behind it.
func (v *PodVerdict) exclusionReason(svc *corev1.Service, ports *portResolver) string {
	if why := selectorMismatch(svc.GetSpec().GetSelector(), v.Pod.GetMetadata().GetLabels()); why != "" {
		return why
	}
	switch v.Pod.GetStatus().GetPhase() {
	case corev1.PodPhase_POD_PHASE_SUCCEEDED:
		return "has ended (Succeeded)"
	case corev1.PodPhase_POD_PHASE_FAILED:
		return "has ended (Failed)"
	}
	if len(v.Addresses) == 0 {
		return "has no address yet"
	}
	if !v.hasAddress(svc) {
		return "has no address of the service's families"
	}
	if !v.registered && !svc.GetSpec().GetPublishNotReadyAddresses() {
		return fmt.Sprintf("its node %q is not registered", v.Pod.GetSpec().GetNodeName())
	}
	v.ports = ports.resolve(v.Pod)
	v.Unresolved = v.ports.unresolved
	if v.lacksAllPorts(svc) && !object.IsHeadless(svc) { // a name is useful without a port, a virtual IP is not
		return "has none of the service's ports"
	}
	return ""
}

// hasAddress reports whether the pod has an address of one of the service's families.
func (v *PodVerdict) hasAddress(svc *corev1.Service) bool {
	return slices.ContainsFunc(v.Addresses, func(a netip.Addr) bool { return slices.Contains(families(svc), addressType(a)) })
}

// lacksAllPorts reports whether the service has ports and the pod has none of them.
func (v *PodVerdict) lacksAllPorts(svc *corev1.Service) bool {
	return len(v.ports.list) == 0 && len(svc.GetSpec().GetPorts()) > 0
}

// nodeOfPod looks up the pod's node. registered is true if the node is known or the pod has none.
func nodeOfPod(pod *corev1.Pod, nodes Nodes) (node Node, registered bool) {
	name := pod.GetSpec().GetNodeName()
	if name == "" {
		return Node{Ready: true}, true
	}
	if node, ok := nodes(name); ok {
		return node, true
	}
	return Node{Ready: true}, false
}

// serving reports whether a pod serves, and why not.
func serving(pod *corev1.Pod, node Node) (ok bool, reason string) {
	if !node.Ready {
		return false, fmt.Sprintf("its node %q is not ready", pod.GetSpec().GetNodeName())
	}
	conditions := pod.GetStatus().GetConditions()
	ready := object.Condition(conditions, object.ConditionReady)
	if ready.GetStatus() != corev1.ConditionStatus_CONDITION_STATUS_TRUE {
		switch {
		case ready.GetMessage() != "":
			return false, "is not ready: " + ready.GetMessage()
		case ready.GetReason() != "":
			return false, "is not ready: " + ready.GetReason()
		default:
			return false, "is not ready"
		}
	}
	for _, gate := range pod.GetSpec().GetReadinessGates() {
		if !object.IsTrue(conditions, gate.GetConditionType()) {
			return false, fmt.Sprintf("its readiness gate %q is not open", gate.GetConditionType())
		}
	}
	return true, "is ready"
}

// selectorMismatch describes a pair of the selector that the labels lack. It returns "" if they
// match.
func selectorMismatch(selector, labels map[string]string) string {
	if spec.MatchEquality(selector, labels) {
		return ""
	}
	for _, key := range sortedKeys(selector) {
		switch have, ok := labels[key]; {
		case !ok:
			return fmt.Sprintf("has no label %s, wanted %q", key, selector[key])
		case have != selector[key]:
			return fmt.Sprintf("label %s is %q, wanted %q", key, have, selector[key])
		}
	}
	return "the service has no selector"
}

// addresses returns the valid addresses of a pod. A pod in the host network has the addresses of
// its node or, if the node has none, the addresses in the pod's status.
func addresses(pod *corev1.Pod, node Node) []netip.Addr {
	texts := object.PodIPs(pod)
	if pod.GetSpec().GetHostNetwork() {
		if own := slices.DeleteFunc([]netip.Addr{node.IPv4, node.IPv6}, func(a netip.Addr) bool { return !a.IsValid() }); len(own) > 0 {
			return own
		}
		if ip := pod.GetStatus().GetHostIp(); ip != "" {
			texts = []string{ip}
		}
	}
	return object.ParseAddrs(texts)
}

func addressType(a netip.Addr) corev1.AddressType {
	if a.Is4() {
		return corev1.AddressType_ADDRESS_TYPE_IPV4
	}
	return corev1.AddressType_ADDRESS_TYPE_IPV6
}

// families returns the address types of a service's slices, in order.
func families(svc *corev1.Service) []corev1.AddressType {
	var types []corev1.AddressType
	for _, f := range svc.GetSpec().GetIpFamilies() {
		if f == corev1.IPFamily_IP_FAMILY_IPV6 {
			types = append(types, corev1.AddressType_ADDRESS_TYPE_IPV6)
		} else {
			types = append(types, corev1.AddressType_ADDRESS_TYPE_IPV4)
		}
	}
	if len(types) == 0 {
		types = append(types, corev1.AddressType_ADDRESS_TYPE_IPV4)
	}
	return types
}
