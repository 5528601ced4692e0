package manifest

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/manifest/kube"
	"portolan.dev/services/spec"
)

func (r *reader) endpoints(from *kube.Endpoints) *corev1.Endpoints {
	return &corev1.Endpoints{Metadata: r.meta(from.ObjectMeta), Subsets: each(from.Subsets, r.subset)}
}

func (r *reader) subset(i int, from kube.EndpointSubset) *corev1.EndpointSubset {
	path := fmt.Sprintf("subsets[%d]", i)
	addresses := func(name string, from []kube.EndpointAddress) []*corev1.EndpointAddress {
		return each(from, func(j int, address kube.EndpointAddress) *corev1.EndpointAddress {
			return &corev1.EndpointAddress{
				Ip: address.IP, Hostname: address.Hostname, NodeName: address.NodeName,
				TargetRef: r.reference(fmt.Sprintf("%s.%s[%d].targetRef", path, name, j), address.TargetRef),
			}
		})
	}
	return &corev1.EndpointSubset{
		Addresses:         addresses("addresses", from.Addresses),
		NotReadyAddresses: addresses("notReadyAddresses", from.NotReadyAddresses),
		Ports: each(from.Ports, func(j int, port kube.EndpointPort) *corev1.EndpointSubsetPort {
			return &corev1.EndpointSubsetPort{
				Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol,
				Protocol: readEnum[corev1.Protocol](r, fmt.Sprintf("%s.ports[%d].protocol", path, j), port.Protocol),
			}
		}),
	}
}

func writeEndpoints(from *corev1.Endpoints, to *kube.Endpoints) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	address := func(_ int, address *corev1.EndpointAddress) kube.EndpointAddress {
		return kube.EndpointAddress{
			IP: address.GetIp(), Hostname: address.GetHostname(), NodeName: address.NodeName, TargetRef: writeReference(address.GetTargetRef()),
		}
	}
	to.Subsets = each(from.GetSubsets(), func(_ int, subset *corev1.EndpointSubset) kube.EndpointSubset {
		return kube.EndpointSubset{
			Addresses:         each(subset.GetAddresses(), address),
			NotReadyAddresses: each(subset.GetNotReadyAddresses(), address),
			Ports: each(subset.GetPorts(), func(_ int, port *corev1.EndpointSubsetPort) kube.EndpointPort {
				return kube.EndpointPort{
					Name: port.GetName(), Port: port.GetPort(), AppProtocol: port.AppProtocol, Protocol: kube.Protocol(spec.EnumName(port.GetProtocol())),
				}
			}),
		}
	})
}

func (r *reader) endpointSlice(from *kube.EndpointSlice) *corev1.EndpointSlice {
	to := &corev1.EndpointSlice{
		Metadata:    r.meta(from.ObjectMeta),
		AddressType: readEnum[corev1.AddressType](r, "addressType", from.AddressType),
		Endpoints:   each(from.Endpoints, r.endpoint),
		Ports: each(from.Ports, func(i int, port kube.SlicePort) *corev1.EndpointPort {
			return &corev1.EndpointPort{
				Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol,
				Protocol: readEnum[corev1.Protocol](r, fmt.Sprintf("ports[%d].protocol", i), value(port.Protocol)),
			}
		}),
	}
	r.sliceWeights(to)
	return to
}

func (r *reader) endpoint(i int, from kube.SliceEndpoint) *corev1.Endpoint {
	to := &corev1.Endpoint{
		Addresses: from.Addresses, Hostname: from.Hostname, NodeName: from.NodeName, Zone: from.Zone,
		TargetRef:          r.reference(fmt.Sprintf("endpoints[%d].targetRef", i), from.TargetRef),
		DeprecatedTopology: nonEmpty(from.DeprecatedTopology),
	}
	if c := from.Conditions; c.Ready != nil || c.Serving != nil || c.Terminating != nil {
		to.Conditions = &corev1.EndpointConditions{Ready: c.Ready, Serving: c.Serving, Terminating: c.Terminating}
	}
	if from.Hints != nil {
		to.Hints = &corev1.EndpointHints{
			ForZones: each(from.Hints.ForZones, func(_ int, zone kube.SliceForZone) *corev1.ForZone { return &corev1.ForZone{Name: zone.Name} }),
			ForNodes: each(from.Hints.ForNodes, func(_ int, node kube.SliceForNode) *corev1.ForNode { return &corev1.ForNode{Name: node.Name} }),
		}
	}
	return to
}

func writeEndpointSlice(from *corev1.EndpointSlice, to *kube.EndpointSlice) {
	to.ObjectMeta = writeMeta(from.GetMetadata())
	to.AddressType = kube.SliceAddressType(spec.EnumName(from.GetAddressType()))
	to.Endpoints = each(from.GetEndpoints(), writeEndpoint)
	to.Ports = each(from.GetPorts(), func(_ int, port *corev1.EndpointPort) kube.SlicePort {
		return kube.SlicePort{
			Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol, Protocol: enumPointer[kube.Protocol](port.GetProtocol()),
		}
	})
	writeWeights(&to.ObjectMeta, from.GetEndpoints())
}

func writeEndpoint(_ int, from *corev1.Endpoint) kube.SliceEndpoint {
	to := kube.SliceEndpoint{
		Addresses: from.GetAddresses(), Hostname: from.Hostname, NodeName: from.NodeName, Zone: from.Zone,
		TargetRef: writeReference(from.GetTargetRef()), DeprecatedTopology: nonEmpty(from.GetDeprecatedTopology()),
	}
	if c := from.GetConditions(); c != nil {
		to.Conditions = kube.SliceConditions{Ready: c.Ready, Serving: c.Serving, Terminating: c.Terminating}
	}
	if hints := from.GetHints(); hints != nil {
		to.Hints = &kube.SliceHints{
			ForZones: each(hints.GetForZones(), func(_ int, zone *corev1.ForZone) kube.SliceForZone {
				return kube.SliceForZone{Name: zone.GetName()}
			}),
			ForNodes: each(hints.GetForNodes(), func(_ int, node *corev1.ForNode) kube.SliceForNode {
				return kube.SliceForNode{Name: node.GetName()}
			}),
		}
	}
	return to
}
