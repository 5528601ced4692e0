package verify

import (
	"strconv"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/allocator/pool"
)

// wanted is a value that an object has.
type wanted struct {
	use   allocatorv1.Use
	text  string
	field string
}

// wantedBy returns the values of an object that should be allocated. A malformed value is included;
// its allocation fails. Some addresses of pods do not come from the allocator; their allocation
// fails as well because they are in no pool.
func wantedBy(o object.Object) []wanted {
	switch o := o.(type) {
	case *corev1.Service:
		return wantedByService(o)
	case *corev1.Pod:
		return wantedByPod(o)
	default:
		return nil
	}
}

func wantedByPod(pod *corev1.Pod) []wanted {
	var all []wanted
	for i, ip := range pod.GetStatus().GetPodIps() {
		all = append(all, wanted{allocatorv1.Use_USE_POD_IP, ip, "status.podIPs[" + strconv.Itoa(i) + "]"})
	}
	return all
}

func wantedByService(svc *corev1.Service) []wanted {
	var all []wanted
	spec := svc.GetSpec()
	if spec.GetType() != corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME {
		for i, ip := range spec.GetClusterIps() {
			if ip != "" && ip != object.ClusterIPNone {
				all = append(all, wanted{allocatorv1.Use_USE_CLUSTER_IP, ip, "spec.clusterIPs[" + strconv.Itoa(i) + "]"})
			}
		}
	}
	seen := map[int32]bool{0: true} // one number may serve two protocols
	add := func(port int32, field string) {
		if !seen[port] {
			seen[port] = true
			all = append(all, wanted{allocatorv1.Use_USE_NODE_PORT, strconv.Itoa(int(port)), field})
		}
	}
	for i, p := range spec.GetPorts() {
		add(p.GetNodePort(), "spec.ports["+strconv.Itoa(i)+"].nodePort")
	}
	add(spec.GetHealthCheckNodePort(), "spec.healthCheckNodePort")
	return all
}

// has reports whether an object has a value that is allocated to it. It returns true if the object
// cannot tell, as with addresses that a pod or a load balancer may still get.
func has(o object.Object, use allocatorv1.Use, v pool.Value) bool {
	svc, ok := o.(*corev1.Service)
	if !ok || use != allocatorv1.Use_USE_CLUSTER_IP && use != allocatorv1.Use_USE_NODE_PORT {
		return true
	}
	for _, w := range wantedBy(svc) {
		if w.use == use && sameValue(w, v) {
			return true
		}
	}
	return false
}

func sameValue(w wanted, v pool.Value) bool {
	got, err := parse(w)
	return err == nil && got == v
}

func parse(w wanted) (pool.Value, error) {
	if w.use == allocatorv1.Use_USE_NODE_PORT {
		return pool.ParsePort(w.text)
	}
	return pool.ParseAddr(w.text)
}
