package kube

import (
	kubev1 "k8s.io/api/core/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

func (r *reader) endpoints(from *kubev1.Endpoints) *corev1.Endpoints { //nolint:staticcheck // older clients use the kind
	return &corev1.Endpoints{Metadata: r.meta(&from.ObjectMeta), Subsets: each(from.Subsets, r.subset)}
}

func (r *reader) subset(i int, from kubev1.EndpointSubset) *corev1.EndpointSubset { //nolint:staticcheck // as above
	path := at("subsets", i)
	addresses := func(name string, from []kubev1.EndpointAddress) []*corev1.EndpointAddress {
		return each(from, func(j int, address kubev1.EndpointAddress) *corev1.EndpointAddress {
			return &corev1.EndpointAddress{
				Ip: address.IP, Hostname: address.Hostname, NodeName: address.NodeName,
				TargetRef: r.reference(at(path+"."+name, j)+".targetRef", address.TargetRef),
			}
		})
	}
	return &corev1.EndpointSubset{
		Addresses:         addresses("addresses", from.Addresses),
		NotReadyAddresses: addresses("notReadyAddresses", from.NotReadyAddresses),
		Ports: each(from.Ports, func(j int, port kubev1.EndpointPort) *corev1.EndpointSubsetPort {
			return &corev1.EndpointSubsetPort{
				Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol,
				Protocol: readEnum[corev1.Protocol](r, at(path+".ports", j)+".protocol", port.Protocol),
			}
		}),
	}
}

func writeEndpoints(from *corev1.Endpoints, to *kubev1.Endpoints) { //nolint:staticcheck // as above
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	address := func(_ int, address *corev1.EndpointAddress) kubev1.EndpointAddress {
		return kubev1.EndpointAddress{
			IP: address.GetIp(), Hostname: address.GetHostname(), NodeName: address.NodeName, TargetRef: writeReference(address.GetTargetRef()),
		}
	}
	to.Subsets = each(from.GetSubsets(), func(_ int, subset *corev1.EndpointSubset) kubev1.EndpointSubset { //nolint:staticcheck // as above
		return kubev1.EndpointSubset{ //nolint:staticcheck // as above
			Addresses:         each(subset.GetAddresses(), address),
			NotReadyAddresses: each(subset.GetNotReadyAddresses(), address),
			Ports: each(subset.GetPorts(), func(_ int, port *corev1.EndpointSubsetPort) kubev1.EndpointPort {
				return kubev1.EndpointPort{
					Name: port.GetName(), Port: port.GetPort(), AppProtocol: port.AppProtocol, Protocol: kubev1.Protocol(spec.EnumName(port.GetProtocol())),
				}
			}),
		}
	})
}
