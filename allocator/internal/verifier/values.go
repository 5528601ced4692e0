package verifier

import (
	"slices"
	"strconv"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
)

// objectValue is a value that an object has.
type objectValue struct {
	use   allocatorv1.Use
	text  string
	field string
	// protocol is the protocol of a node port. In most pools a number is of all protocols.
	protocol pool.Protocol
	// slot is the slot of a load-balancer address in its owner; other values have slots of the verifier.
	slot string
}

// valuesOf returns the values of an object that should be allocated. A malformed value is included;
// its allocation fails. Some addresses of pods do not come from the allocator; their allocation
// fails as well because they are in no pool.
func valuesOf(o object.Object) []objectValue {
	switch o := o.(type) {
	case *corev1.Service:
		return serviceValues(o)
	case *corev1.Pod:
		return podValues(o)
	default:
		return nil
	}
}

func podValues(pod *corev1.Pod) []objectValue {
	var all []objectValue
	for i, ip := range pod.GetStatus().GetPodIps() {
		all = append(all, objectValue{allocatorv1.Use_USE_POD_IP, ip, "status.podIPs[" + strconv.Itoa(i) + "]", pool.AllProtocols, ""})
	}
	return all
}

func serviceValues(svc *corev1.Service) []objectValue {
	var all []objectValue
	spec := svc.GetSpec()
	if spec.GetType() != corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME {
		for i, ip := range spec.GetClusterIps() {
			if ip != "" && ip != object.ClusterIPNone {
				all = append(all, objectValue{allocatorv1.Use_USE_CLUSTER_IP, ip, "spec.clusterIPs[" + strconv.Itoa(i) + "]", pool.AllProtocols, ""})
			}
		}
	}
	add := func(port int32, protocol corev1.Protocol, field string) {
		if port != 0 {
			all = append(all, objectValue{allocatorv1.Use_USE_NODE_PORT, strconv.Itoa(int(port)), field, protocolOf(protocol), ""})
		}
	}
	for i, p := range spec.GetPorts() {
		add(p.GetNodePort(), p.GetProtocol(), "spec.ports["+strconv.Itoa(i)+"].nodePort")
	}
	add(spec.GetHealthCheckNodePort(), corev1.Protocol_PROTOCOL_TCP, "spec.healthCheckNodePort")
	return append(all, balancerValues(svc)...)
}

// protocolOf returns the protocol of a service's port.
func protocolOf(p corev1.Protocol) pool.Protocol {
	switch p {
	case corev1.Protocol_PROTOCOL_UDP:
		return pool.UDP
	case corev1.Protocol_PROTOCOL_SCTP:
		return pool.SCTP
	default:
		return pool.TCP
	}
}

// hasValue reports whether an object has a value that is allocated to it. It returns true if the object may
// still get the value, like the address of a pod. A service with lbctl's finalizer
// may still get load-balancer addresses: lbctl writes them after they are allocated, and releases them
// before it removes the finalizer.
func hasValue(o object.Object, use allocatorv1.Use, v pool.Value) bool {
	svc, ok := o.(*corev1.Service)
	switch {
	case !ok || use == allocatorv1.Use_USE_POD_IP:
		return true
	case use == allocatorv1.Use_USE_LOAD_BALANCER_IP && spec.HasBalancerFinalizer(svc):
		return true
	}
	return isStored(svc, use, v)
}

// isStored reports whether a value is in a service.
func isStored(svc *corev1.Service, use allocatorv1.Use, v pool.Value) bool {
	for _, w := range valuesOf(svc) {
		if w.use == use && sameValue(w, v) {
			return true
		}
	}
	return false
}

// sameValue reports whether w is the value v, or the number of v for the protocol of v.
func sameValue(w objectValue, v pool.Value) bool {
	got, err := parse(w)
	return err == nil && got == v.Without() && (v.Protocol() == pool.AllProtocols || v.Protocol() == w.protocol)
}

// allocatable is a value of an object in the form in which it is allocated.
type allocatable struct {
	objectValue
	value pool.Value
	err   error // the value is malformed
}

// request returns the claim for the value, in its slot if it has one.
func (a *allocatable) request() allocation.ClaimRequest {
	if a.slot == "" {
		return a.repairRequest()
	}
	return a.requestIn(a.slot)
}

// repairRequest returns the claim for the value, in a slot of the verifier's own.
func (a *allocatable) repairRequest() allocation.ClaimRequest {
	return a.requestIn(repairedSlots + a.value.String())
}

func (a *allocatable) requestIn(slot string) allocation.ClaimRequest {
	r := allocation.ClaimRequest{Slot: slot, Use: a.use, Value: a.text, Repair: true}
	if a.protocol != pool.AllProtocols {
		r.Protocols = []pool.Protocol{a.protocol}
	}
	return r
}

// allocatablesOf returns the values of an object that should be allocated, each once: in a pool with
// one value for each protocol, a number that serves two of them is two values.
func (v *Verifier) allocatablesOf(o object.Object) []allocatable {
	var all []allocatable
	for _, w := range valuesOf(o) {
		value, err := parse(w)
		if w.use == allocatorv1.Use_USE_LOAD_BALANCER_IP && (err != nil || !v.inBalancerPool(value)) {
			continue // of a provider that does not use the allocator
		}
		if w.use == allocatorv1.Use_USE_NODE_PORT && err == nil && v.cfg.Engine.IsPerProtocol(value) {
			value = pool.PortValueFor(value.Port(), w.protocol)
		}
		known := slices.ContainsFunc(all, func(a allocatable) bool { return a.use == w.use && a.text == w.text && a.value == value })
		if !known {
			all = append(all, allocatable{w, value, err})
		}
	}
	return all
}

func parse(w objectValue) (pool.Value, error) {
	if w.use == allocatorv1.Use_USE_NODE_PORT {
		return pool.ParsePort(w.text)
	}
	return pool.ParseAddr(w.text)
}
