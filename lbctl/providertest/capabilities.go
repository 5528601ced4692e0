package providertest

import (
	"slices"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// can returns the capabilities of the provider.
func (r *run) can() *loadbalancerv1.GetCapabilitiesResponse {
	r.Helper()
	resp, err := r.Client.GetCapabilities(r.Context(), &loadbalancerv1.GetCapabilitiesRequest{})
	if err != nil {
		r.Fatalf("GetCapabilities: %v", err)
	}
	return resp
}

func (r *run) capabilities() {
	can := r.can()
	if can.GetName() == "" || len(can.GetProtocols()) == 0 || len(can.GetFamilies()) == 0 {
		r.Errorf("a provider has a name, protocols and families; this one answers %v", can)
	}
	if can.GetMixedProtocols() && len(can.GetProtocols()) < 2 {
		r.Errorf("a provider of %v alone has no protocols to mix", can.GetProtocols())
	}
}

// checkPorts checks the ports in a load balancer's status. Each must be a port of the service, and an error must be
// a word in CamelCase, because the registry refuses other texts.
func (r *run) checkPorts(svc *corev1.Service, state *corev1.LoadBalancerStatus) {
	r.Helper()
	for _, ingress := range state.GetIngress() {
		for _, port := range ingress.GetPorts() {
			known := slices.ContainsFunc(svc.GetSpec().GetPorts(), func(p *corev1.ServicePort) bool {
				return p.GetPort() == port.GetPort() && p.GetProtocol() == port.GetProtocol()
			})
			if !known {
				r.Errorf("the load balancer has the port %v, and the service has not", port)
			}
			if port.Error != nil && spec.QualifiedName(port.GetError()) != "" {
				r.Errorf("the error %q of a port is no word in CamelCase: %s", port.GetError(), spec.QualifiedName(port.GetError()))
			}
		}
	}
}

// withPorts returns a service of the suite with a port of each protocol.
func (r *run) withPorts(name string, protocols ...corev1.Protocol) *corev1.Service {
	svc := r.service(name)
	first := svc.GetSpec().GetPorts()[0]
	svc.Spec.Ports = nil
	for i, protocol := range protocols {
		port := first.CloneVT()
		port.Name, port.Protocol = "p"+spec.EnumName(protocol), protocol
		port.Port += int32(i)
		if port.GetNodePort() != 0 {
			port.NodePort += int32(i)
		}
		svc.Spec.Ports = append(svc.Spec.Ports, port)
	}
	return svc
}

// refusedPorts returns the ports with errors.
func refusedPorts(state *corev1.LoadBalancerStatus) []*corev1.PortStatus {
	var refused []*corev1.PortStatus
	for _, ingress := range state.GetIngress() {
		for _, port := range ingress.GetPorts() {
			if port.Error != nil {
				refused = append(refused, port)
			}
		}
	}
	return refused
}

// protocols makes a load balancer for each protocol of the provider's capabilities.
func (r *run) protocols() {
	for _, protocol := range r.can().GetProtocols() {
		svc := r.withPorts("web", protocol)
		if refused := refusedPorts(r.ensure(svc)); len(refused) > 0 {
			r.Errorf("the provider says that it forwards %s, and refuses %v", spec.EnumName(protocol), refused)
		}
		r.delete(svc)
	}
}

// mixed makes a load balancer with a port of each protocol, if the provider can mix protocols.
func (r *run) mixed() {
	can := r.can()
	if !can.GetMixedProtocols() {
		return
	}
	svc := r.withPorts("web", can.GetProtocols()...)
	if refused := refusedPorts(r.ensure(svc)); len(refused) > 0 {
		r.Errorf("the provider says that protocols may be mixed, and refuses %v", refused)
	}
	r.delete(svc)
}

// internal makes an internal load balancer beside another one, if the provider can make internal ones.
func (r *run) internal() {
	if !r.can().GetInternal() {
		return
	}
	inside, outside := r.service("inside"), r.service("outside")
	if inside.Metadata.Annotations == nil {
		inside.Metadata.Annotations = map[string]string{}
	}
	inside.Metadata.Annotations[object.AnnotationBalancerInternal] = "true"
	first, other := r.ensure(inside), r.ensure(outside)
	if slices.Equal(texts(first), texts(other)) {
		r.Errorf("the internal load balancer and the other one both have %v", texts(first))
	}
	r.wantSame("a repeated Ensure of the internal one", r.ensure(inside), first)
	found, err := r.get(inside)
	r.wantCode("Get of the internal one", err, codes.OK)
	r.wantSame("Get of the internal one", found, first)
	r.delete(inside)
	r.delete(outside)
}
