package verifier

import (
	"testing"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/allocator/store"
)

// withProtocols returns a service with node port 31053 for each of the protocols.
func withProtocols(name, uid string, protocols ...corev1.Protocol) *corev1.Service {
	svc := service(name, uid, "None")
	for _, p := range protocols {
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{NodePort: 31053, Protocol: p})
	}
	return svc
}

// TestANumberHasAnOwnerForEachProtocol has services with one number for different protocols, in a
// pool that allows it.
func TestANumberHasAnOwnerForEachProtocol(t *testing.T) {
	const tcp, udp, sctp = corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP, corev1.Protocol_PROTOCOL_SCTP
	w := newTestVerifier(t)
	if _, err := w.engine.CreatePool(t.Context(), store.Pool{Name: "split", Use: allocatorv1.Use_USE_NODE_PORT, Range: "31000-31099", PerProtocol: true}); err != nil {
		t.Fatal(err)
	}
	both := withProtocols("both", "u1", tcp, sctp)
	w.feed.Put(both, withProtocols("dns", "u2", udp))
	w.passGrace()
	w.want("31053/TCP u1", "31053/SCTP u1", "31053/UDP u2")
	w.wantEvents("both PortNotAllocated spec.ports[0].nodePort", "both PortNotAllocated spec.ports[1].nodePort", "dns PortNotAllocated")

	w.feed.Put(withProtocols("late", "u3", udp))
	w.passGrace()
	w.want("31053/TCP u1", "31053/SCTP u1", "31053/UDP u2")
	w.wantEvents("late PortAlreadyAllocated spec.ports[0].nodePort: 31053 is already allocated to Service default/dns",
		"dns PortAlreadyAllocated spec.ports[0].nodePort: 31053 is also in Service default/late")

	w.feed.Put(withProtocols("both", "u1", tcp))
	w.passGrace()
	w.want("31053/TCP u1", "31053/UDP u2")
	w.feed.Delete(object.KeyOf(both))
	w.passGrace()
	w.want("31053/UDP u2")
}

// TestANumberOfTwoProtocolsInASharedPool checks that such a number is allocated once.
func TestANumberOfTwoProtocolsInASharedPool(t *testing.T) {
	w := newTestVerifier(t)
	svc := withProtocols("dns", "u1", corev1.Protocol_PROTOCOL_TCP, corev1.Protocol_PROTOCOL_UDP)
	svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort = 30053, 30053
	w.feed.Put(svc)
	w.passGrace()
	w.want("30053 u1")
	w.wantEvents("dns PortNotAllocated")
}
