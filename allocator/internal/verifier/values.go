package verifier

import (
	"strconv"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/allocator/pool"
)

// objectValue is a value that an object has.
type objectValue struct {
	use   allocatorv1.Use
	text  string
	field string
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
		all = append(all, objectValue{allocatorv1.Use_USE_POD_IP, ip, "status.podIPs[" + strconv.Itoa(i) + "]"})
	}
	return all
}

func serviceValues(svc *corev1.Service) []objectValue {
	var all []objectValue
	spec := svc.GetSpec()
	if spec.GetType() != corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME {
		for i, ip := range spec.GetClusterIps() {
			if ip != "" && ip != object.ClusterIPNone {
				all = append(all, objectValue{allocatorv1.Use_USE_CLUSTER_IP, ip, "spec.clusterIPs[" + strconv.Itoa(i) + "]"})
			}
		}
	}
	seen := map[int32]bool{0: true} // one number may serve two protocols
	add := func(port int32, field string) {
		if !seen[port] {
			seen[port] = true
			all = append(all, objectValue{allocatorv1.Use_USE_NODE_PORT, strconv.Itoa(int(port)), field})
		}
	}
	for i, p := range spec.GetPorts() {
		add(p.GetNodePort(), "spec.ports["+strconv.Itoa(i)+"].nodePort")
	}
	add(spec.GetHealthCheckNodePort(), "spec.healthCheckNodePort")
	return all
}

// hasValue reports whether an object has a value that is allocated to it. It returns true if the
// object cannot tell, as with addresses that a pod or a load balancer may still get.
func hasValue(o object.Object, use allocatorv1.Use, v pool.Value) bool {
	svc, ok := o.(*corev1.Service)
	if !ok || use != allocatorv1.Use_USE_CLUSTER_IP && use != allocatorv1.Use_USE_NODE_PORT {
		return true
	}
	for _, w := range valuesOf(svc) {
		if w.use == use && sameValue(w, v) {
			return true
		}
	}
	return false
}

func sameValue(w objectValue, v pool.Value) bool {
	got, err := parse(w)
	return err == nil && got == v
}

func parse(w objectValue) (pool.Value, error) {
	if w.use == allocatorv1.Use_USE_NODE_PORT {
		return pool.ParsePort(w.text)
	}
	return pool.ParseAddr(w.text)
}
