package spec

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// TopologyAuto reports whether the service's annotation requests backends in the client's zone. The
// annotation takes precedence over spec.trafficDistribution.
func TopologyAuto(svc *corev1.Service) bool {
	notes := svc.GetMetadata().GetAnnotations()
	mode := cmp.Or(notes[object.AnnotationTopologyMode], notes[object.AnnotationTopologyModeOlder])
	return mode == "Auto" || mode == "auto"
}

// IsLoadBalancer reports whether the service is of type LoadBalancer.
func IsLoadBalancer(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
}

// AllowsNodePorts reports whether the service's type can have node ports.
func AllowsNodePorts(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_NODE_PORT || IsLoadBalancer(svc)
}

// NeedsNodePorts reports whether the allocator assigns node ports to ports without one.
func NeedsNodePorts(svc *corev1.Service) bool {
	if !AllowsNodePorts(svc) {
		return false
	}
	allocate := svc.GetSpec().AllocateLoadBalancerNodePorts
	return !IsLoadBalancer(svc) || allocate == nil || *allocate
}

// NeedsHealthCheckNodePort reports whether the service needs a node port on which every node tells
// load balancers if it has backends.
func NeedsHealthCheckNodePort(svc *corev1.Service) bool {
	return IsLoadBalancer(svc) && svc.GetSpec().GetExternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
}

// ExternallyAccessible reports whether the service can receive traffic from outside the cluster.
func ExternallyAccessible(svc *corev1.Service) bool {
	return AllowsNodePorts(svc) || (!object.IsExternalName(svc) && len(svc.GetSpec().GetExternalIps()) > 0)
}

// LoadBalancerSourceRanges returns the ranges of clients that may reach the load balancer's
// addresses. They come from the field or, if that is empty, from the older annotation. If both
// results are empty, all clients may. Malformed entries, which validation refuses, admit no client.
func LoadBalancerSourceRanges(svc *corev1.Service) (ranges []netip.Prefix, malformed []string) {
	texts, _ := sourceRanges(svc)
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			malformed = append(malformed, text)
			continue
		}
		ranges = append(ranges, prefix.Masked())
	}
	return ranges, malformed
}

// sourceRanges returns the trimmed ranges and the path of the field that they come from.
func sourceRanges(svc *corev1.Service) (texts []string, field string) {
	texts, field = svc.GetSpec().GetLoadBalancerSourceRanges(), "spec.loadBalancerSourceRanges"
	if len(texts) == 0 {
		annotation := strings.TrimSpace(svc.GetMetadata().GetAnnotations()[object.AnnotationSourceRanges])
		if annotation == "" {
			return nil, field
		}
		texts, field = strings.Split(annotation, ","), "metadata.annotations["+object.AnnotationSourceRanges+"]"
	}
	trimmed := make([]string, len(texts))
	for i, text := range texts {
		trimmed[i] = strings.TrimSpace(text)
	}
	return trimmed, field
}
