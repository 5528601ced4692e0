package sim

import (
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/workload"
	"portolan.dev/services/object"
)

// There are few services, slices and backends, so that names and addresses are soon used again.
const (
	forwardedServices = 4
	slicesPerService  = 2
	backendAddresses  = 5
)

// drawForwardingWrites adds writes of services with fixed addresses, and of their slices.
func drawForwardingWrites(g *generator, length time.Duration) {
	for at := firstWrite; at < length; {
		drawForwardingWrite(g, at)
		at += pick(g, g.upTo(3*time.Millisecond), g.upTo(80*time.Millisecond), g.upTo(time.Second))
	}
}

func drawForwardingWrite(g *generator, at time.Duration) {
	n := g.random.IntN(forwardedServices)
	switch g.random.IntN(12) {
	case 0, 1, 2:
		drawPut(g, at, drawForwardedService(g, n))
	case 3:
		drawDelete(g, at, drawForwardedService(g, n))
	case 4:
		drawDelete(g, at, drawForwardedSlice(g, n))
	case 5:
		drawPut(g, at, drawNodePod(g))
	case 6:
		drawDelete(g, at, pick[object.Object](g, drawNodePod(g), &corev1.Node{Metadata: &corev1.ObjectMeta{Name: pick(g, nodeNames...)}}))
	default:
		drawPut(g, at, drawForwardedSlice(g, n))
	}
}

func drawPut(g *generator, at time.Duration, o object.Object) {
	g.add(at, func(w *world) { w.put(o) }, "put %s %s", object.KeyOf(o), describe(o))
}

func drawDelete(g *generator, at time.Duration, o object.Object) {
	g.add(at, func(w *world) { w.write(workload.Step{Verb: workload.Delete, Object: o}) }, "delete %s", object.KeyOf(o))
}

// put creates an object, or updates it if it exists.
func (w *world) put(o object.Object) {
	verb := workload.Create
	if w.registry.Log.Get(object.KeyOf(o)) != nil {
		verb = workload.Update
	}
	w.write(workload.Step{Verb: verb, Object: object.Clone(o)})
}

// describe returns the parts of an object that determine forwarding.
func describe(o object.Object) string {
	switch o := o.(type) {
	case *corev1.Service:
		return fmt.Sprintf("%s, external policy %s, %d ports", o.GetSpec().GetType(), o.GetSpec().GetExternalTrafficPolicy(), len(o.GetSpec().GetPorts()))
	case *corev1.EndpointSlice:
		text := ""
		for _, e := range o.GetEndpoints() {
			text += fmt.Sprintf(" %s on %s", e.GetAddresses()[0], e.GetNodeName())
			if e.Weight != nil {
				text += fmt.Sprintf(" weight %d", e.GetWeight())
			}
			if c := e.GetConditions(); !c.GetReady() {
				text += fmt.Sprintf(" not ready, serving %t", c.GetServing())
			}
		}
		return text
	}
	return ""
}

func drawForwardedService(g *generator, n int) *corev1.Service {
	ip := fmt.Sprintf("10.96.0.%d", 10+n)
	s := &corev1.ServiceSpec{ClusterIp: ip, ClusterIps: []string{ip}, Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP}
	if g.chance(50) {
		s.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	}
	if g.chance(30) {
		s.ExternalIps = []string{fmt.Sprintf("198.51.100.%d", 10+n)}
	}
	if (s.GetType() == corev1.ServiceType_SERVICE_TYPE_NODE_PORT || len(s.GetExternalIps()) > 0) && g.chance(50) {
		s.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	}
	for i, p := range []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP}[:1+g.random.IntN(2)] {
		port := &corev1.ServicePort{Name: portNames[i], Port: 80, Protocol: p}
		if s.GetType() == corev1.ServiceType_SERVICE_TYPE_NODE_PORT {
			port.NodePort = int32(30000 + 10*n + i)
		}
		s.Ports = append(s.Ports, port)
	}
	return &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: object.DefaultNamespace, Name: fmt.Sprintf("s%d", n)}, Spec: s}
}

// portNames are the names of a service's TCP port and UDP port.
var portNames = []string{"tcp", "udp"}

func drawForwardedSlice(g *generator, n int) *corev1.EndpointSlice {
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{
			Namespace: object.DefaultNamespace, Name: fmt.Sprintf("s%d-%d", n, g.random.IntN(slicesPerService)),
			Labels: map[string]string{object.LabelServiceName: fmt.Sprintf("s%d", n)},
		},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
	}
	for i, p := range []corev1.Protocol{corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP} {
		number := int32(8080)
		s.Ports = append(s.Ports, &corev1.EndpointPort{Name: &portNames[i], Port: &number, Protocol: p})
	}
	for i := range backendAddresses {
		if g.chance(40) {
			s.Endpoints = append(s.Endpoints, drawEndpoint(g, i))
		}
	}
	return s
}

func drawEndpoint(g *generator, i int) *corev1.Endpoint {
	nodeName, ready := nodeNames[i%len(nodeNames)], g.chance(85)
	e := &corev1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.0.%d", 1+i)}, NodeName: &nodeName}
	e.Conditions = &corev1.EndpointConditions{Ready: &ready}
	if !ready {
		terminating := g.chance(50)
		e.Conditions.Serving, e.Conditions.Terminating = &terminating, &terminating
	}
	if g.chance(30) {
		weight := pick[uint32](g, 0, 0, 1, 3)
		e.Weight = &weight
	}
	return e
}

func drawNodePod(g *generator) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Namespace: object.DefaultNamespace, Name: fmt.Sprintf("p%d", g.random.IntN(3))},
		Spec: &corev1.PodSpec{
			NodeName: pick(g, nodeNames...), Containers: []*corev1.Container{{Name: "c", Image: "i"}},
		},
	}
}
