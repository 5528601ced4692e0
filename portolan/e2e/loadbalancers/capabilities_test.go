package loadbalancers

import (
	"testing"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/lbctl"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// withPort returns a change that adds a port.
func withPort(name string, number int32, protocol corev1.Protocol) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Name: name, Port: number, Protocol: protocol})
	}
}

const (
	udp  = corev1.Protocol_PROTOCOL_UDP
	sctp = corev1.Protocol_PROTOCOL_SCTP
	// awsInternal is an annotation of a cloud provider.
	awsInternal = "service.beta.kubernetes.io/aws-load-balancer-internal"
)

// TestCapabilitiesAreChecked has services that the provider cannot serve. They get no finalizer, and
// say so by a condition and an Event that name the port and the protocol. The registry admits them, because no lbctl
// runs yet when they are created.
func TestCapabilitiesAreChecked(t *testing.T) {
	p := newProvider(t)
	p.Can.NeedsNodePorts = true
	p.Can.Protocols = append(p.Can.Protocols, udp)
	i := installWithoutLBCtl(t)
	no := false
	i.create(balanced("mixed", class(metal), withPort("dns", 53, udp)))
	i.create(balanced("portless", class(metal), func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = &no }))
	i.create(balanced("six", class(metal), func(svc *corev1.Service) {
		svc.Spec.IpFamilies = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV6}
	}))
	i.create(balanced("phone", class(metal), withPort("m2ua", 2904, sctp)))
	i.create(balanced("inside", class(metal), annotate(awsInternal, "0.0.0.0/0")))
	i.create(balanced("pooled", withPort("m2ua", 2904, sctp)))
	i.create(balanced("pooled-inside", annotate(object.AnnotationBalancerInternal, "true")))
	i.startLBCtl(p.serves(metal))
	for name, text := range map[string]string{
		"mixed":    "the provider example.com/metal takes one protocol for each service, and port 53/UDP has another one than port 80/TCP",
		"portless": "port 80/TCP has none: set spec.allocateLoadBalancerNodePorts", "six": "ipFamilies",
		"phone":  "the provider example.com/metal forwards no SCTP (port 2904/SCTP)",
		"inside": "makes no internal load balancer, for which the annotation " + awsInternal + " asks",
		"pooled": "the provider portolan.dev/pool forwards no SCTP (port 2904/SCTP)", "pooled-inside": "-internal-pools",
	} {
		i.awaitReason(name, "Refused", text)
		i.awaitEvent(name, "SyncLoadBalancerFailed", text)
		if svc := i.get(name); spec.HasBalancerFinalizer(svc) {
			t.Errorf("%s has %v", name, svc.GetMetadata().GetFinalizers())
		}
	}
	i.update("mixed", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	i.awaitAddresses("mixed", 1)
	i.update("pooled", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	i.awaitAddresses("pooled", 1)
}

// TestCapabilitiesAreUsed has a provider with the capabilities that the provider of
// TestCapabilitiesAreChecked lacks.
func TestCapabilitiesAreUsed(t *testing.T) {
	p := newProvider(t)
	p.Can.Protocols = append(p.Can.Protocols, udp, sctp)
	p.Can.MixedProtocols, p.Can.Internal = true, true
	i := install(t, p.serves(metal), func(c *lbctl.Config) { c.InternalPools = []string{"inside"} })
	i.create(balanced("phone", class(metal), withPort("dns", 53, udp), withPort("m2ua", 2904, sctp)))
	i.awaitExactly("phone", "203.0.113.1")
	i.create(balanced("inside", class(metal), annotate(awsInternal, "true")))
	i.awaitExactly("inside", "203.0.113.2")
	if all := p.Balancers(); len(all) != 2 || all[0].Internal || !all[1].Internal {
		t.Errorf("the load balancers are %+v; want the second one to be internal", all)
	}

	i.create(balanced("pooled-inside", annotate(awsInternal, "true")))
	i.awaitReason("pooled-inside", "NoAddress", "no pool can give")
	i.createPool("inside", "10.20.0.0/29")
	i.awaitExactly("pooled-inside", i.awaitAddresses("pooled-inside", 1)[0])
	if got := i.get("pooled-inside").GetStatus().GetLoadBalancer().GetIngress()[0].GetIp(); spec.FamilyOf(got) == 0 || got[:8] != "10.20.0." {
		t.Errorf("the internal service has %s, want an address of the internal pool", got)
	}
	i.create(balanced("outside"))
	if got := i.awaitAddresses("outside", 1)[0]; got[:8] != "192.0.2." {
		t.Errorf("another service has %s, want an address of another pool", got)
	}
}

// TestPortsThatAProviderRefuses has a provider that serves a part of the ports only. The service tells
// which.
func TestPortsThatAProviderRefuses(t *testing.T) {
	p := newProvider(t)
	p.Can.Protocols, p.Can.MixedProtocols = append(p.Can.Protocols, udp), true
	p.PortErrors = map[corev1.Protocol]string{udp: "LoadBalancerMixedProtocolNotSupported"}
	i := install(t, p.serves(metal))
	i.create(balanced("mixed", class(metal), withPort("dns", 53, udp)))
	const text = "port 53/UDP at 203.0.113.1: LoadBalancerMixedProtocolNotSupported"
	i.awaitReason("mixed", "PortsRefused", text)
	i.awaitEvent("mixed", "SyncLoadBalancerFailed", text)
	i.awaitExactly("mixed", "203.0.113.1")
	want := &corev1.LoadBalancerIngress{Ip: "203.0.113.1", IpMode: corev1.IPMode_IP_MODE_PROXY, Ports: []*corev1.PortStatus{
		{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP},
		{Port: 53, Protocol: udp, Error: proto.String("LoadBalancerMixedProtocolNotSupported")},
	}}
	if got := i.get("mixed").GetStatus().GetLoadBalancer().GetIngress()[0]; !proto.Equal(got, want) {
		t.Errorf("the service has %v, want %v", got, want)
	}
	i.update("mixed", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	i.awaitReason("mixed", "Ensured", metal)
}

// TestAnAnswerThatIsNotValid has a provider that returns a sentence as the error of a port. The registry
// refuses it, because it must be one word, and the condition of the service says so.
func TestAnAnswerThatIsNotValid(t *testing.T) {
	p := newProvider(t)
	p.PortErrors = map[corev1.Protocol]string{corev1.Protocol_PROTOCOL_TCP: "it is out of order!"}
	i := install(t, p.serves(metal))
	i.create(balanced("web", class(metal)))
	i.awaitReason("web", "Refused", "the provider example.com/metal has answered what is not valid")
	i.awaitEvent("web", "SyncLoadBalancerFailed", "status.loadBalancer.ingress[0].ports[0].error")
}
