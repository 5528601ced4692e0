package kube

import (
	kubev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) endpointSlice(from *discoveryv1.EndpointSlice) *corev1.EndpointSlice {
	to := &corev1.EndpointSlice{
		Metadata:    r.meta(&from.ObjectMeta),
		AddressType: readEnum[corev1.AddressType](r, "addressType", from.AddressType),
		Endpoints:   each(from.Endpoints, r.endpoint),
		Ports: each(from.Ports, func(i int, port discoveryv1.EndpointPort) *corev1.EndpointPort {
			return &corev1.EndpointPort{
				Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol,
				Protocol: readEnum[corev1.Protocol](r, at("ports", i)+".protocol", value(port.Protocol)),
			}
		}),
	}
	r.sliceWeights(to)
	return to
}

func (r *reader) endpoint(i int, from discoveryv1.Endpoint) *corev1.Endpoint {
	to := &corev1.Endpoint{
		Addresses: from.Addresses, Hostname: from.Hostname, NodeName: from.NodeName, Zone: from.Zone,
		TargetRef:          r.reference(at("endpoints", i)+".targetRef", from.TargetRef),
		DeprecatedTopology: nonEmpty(from.DeprecatedTopology),
	}
	if c := from.Conditions; c.Ready != nil || c.Serving != nil || c.Terminating != nil {
		to.Conditions = &corev1.EndpointConditions{Ready: c.Ready, Serving: c.Serving, Terminating: c.Terminating}
	}
	if from.Hints != nil {
		to.Hints = &corev1.EndpointHints{
			ForZones: each(from.Hints.ForZones, func(_ int, zone discoveryv1.ForZone) *corev1.ForZone { return &corev1.ForZone{Name: zone.Name} }),
			ForNodes: each(from.Hints.ForNodes, func(_ int, node discoveryv1.ForNode) *corev1.ForNode { return &corev1.ForNode{Name: node.Name} }),
		}
	}
	return to
}

func writeEndpointSlice(from *corev1.EndpointSlice, to *discoveryv1.EndpointSlice) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	to.AddressType = discoveryv1.AddressType(spec.EnumName(from.GetAddressType()))
	to.Endpoints = each(from.GetEndpoints(), writeEndpoint)
	if to.Endpoints == nil {
		to.Endpoints = []discoveryv1.Endpoint{} // the field is required
	}
	to.Ports = each(from.GetPorts(), func(_ int, port *corev1.EndpointPort) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{
			Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol, Protocol: enumPointer[kubev1.Protocol](port.GetProtocol()),
		}
	})
	writeWeights(&to.ObjectMeta, from.GetEndpoints())
}

func writeEndpoint(_ int, from *corev1.Endpoint) discoveryv1.Endpoint {
	to := discoveryv1.Endpoint{
		Addresses: from.GetAddresses(), Hostname: from.Hostname, NodeName: from.NodeName, Zone: from.Zone,
		TargetRef: writeReference(from.GetTargetRef()), DeprecatedTopology: nonEmpty(from.GetDeprecatedTopology()),
	}
	if c := from.GetConditions(); c != nil {
		to.Conditions = discoveryv1.EndpointConditions{Ready: c.Ready, Serving: c.Serving, Terminating: c.Terminating}
	}
	if hints := from.GetHints(); hints != nil {
		to.Hints = &discoveryv1.EndpointHints{
			ForZones: each(hints.GetForZones(), func(_ int, zone *corev1.ForZone) discoveryv1.ForZone {
				return discoveryv1.ForZone{Name: zone.GetName()}
			}),
			ForNodes: each(hints.GetForNodes(), func(_ int, node *corev1.ForNode) discoveryv1.ForNode {
				return discoveryv1.ForNode{Name: node.GetName()}
			}),
		}
	}
	return to
}
