package clients

import (
	"fmt"
	"math/rand/v2"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Namespace is the namespace of the objects for which writers compete.
const Namespace = "faults"

// contendedObject is an object for which writers compete. Daemons do not write it, because its kind
// and fields give them no reason to.
type contendedObject struct {
	key object.Key
	// generate returns an object with random fields and without a name.
	generate func(random *rand.Rand) object.Object
}

// Services are the names of the services for which writers compete. The second one is headless.
var Services = []string{"svc-0", "svc-1", "svc-2"}

// contendedObjects returns the objects for which writers compete. They are few, so that conflicts
// are frequent.
func contendedObjects() []contendedObject {
	all := []contendedObject{
		{generate: clusterIP, key: object.Key{Kind: "Service", Name: Services[0]}},
		{generate: headless, key: object.Key{Kind: "Service", Name: Services[1]}},
		{generate: nodePort, key: object.Key{Kind: "Service", Name: Services[2]}},
	}
	for n := range 2 {
		all = append(all,
			contendedObject{generate: slice, key: object.Key{Kind: "EndpointSlice", Name: fmt.Sprintf("slice-%d", n)}},
			contendedObject{generate: endpoints, key: object.Key{Kind: "Endpoints", Name: fmt.Sprintf("endpoints-%d", n)}},
			contendedObject{generate: pod, key: object.Key{Kind: "Pod", Name: fmt.Sprintf("pod-%d", n)}},
			contendedObject{generate: lease, key: object.Key{Kind: "Lease", Name: fmt.Sprintf("lease-%d", n)}},
		)
	}
	for n := range all {
		all[n].key.Namespace = Namespace
	}
	return all
}

func clusterIP(random *rand.Rand) object.Object {
	return service(random, &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP})
}

func headless(random *rand.Rand) object.Object {
	return service(random, &corev1.ServiceSpec{ClusterIp: "None"})
}

func nodePort(random *rand.Rand) object.Object {
	return service(random, &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_NODE_PORT})
}

func service(random *rand.Rand, spec *corev1.ServiceSpec) object.Object {
	spec.Ports = []*corev1.ServicePort{{Name: "http", Port: int32(80 + random.IntN(3)), Protocol: corev1.Protocol_PROTOCOL_TCP}}
	return &corev1.Service{Spec: spec}
}

// slice returns a slice with up to three endpoints of the headless service.
func slice(random *rand.Rand) object.Object {
	name, port := "http", int32(8080)
	s := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Labels: map[string]string{object.LabelServiceName: Services[1]}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Name: &name, Port: &port}},
	}
	for _, n := range random.Perm(8)[:random.IntN(4)] {
		s.Endpoints = append(s.Endpoints, &corev1.Endpoint{Addresses: []string{endpointAddress(n)}})
	}
	return s
}

func endpoints(random *rand.Rand) object.Object {
	return &corev1.Endpoints{Subsets: []*corev1.EndpointSubset{{
		Addresses: []*corev1.EndpointAddress{{Ip: endpointAddress(random.IntN(8))}},
		Ports:     []*corev1.EndpointSubsetPort{{Port: 8080}},
	}}}
}

func pod(random *rand.Rand) object.Object {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Labels: map[string]string{"tier": fmt.Sprint(random.IntN(3))}},
		Spec:     &corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0))},
	}
}

func lease(random *rand.Rand) object.Object {
	return &corev1.Lease{Spec: &corev1.LeaseSpec{HolderIdentity: fmt.Sprint(random.IntN(3)), LeaseDurationSeconds: 15}}
}

// endpointAddress returns the nth address of endpoints. It is in the range for benchmarks
// (198.18.0.0/15), so there is no such host.
func endpointAddress(n int) string { return fmt.Sprintf("198.18.0.%d", n+1) }
