package spec

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "portolan.dev/proto/portolan/core/v1"
)

// ClusterIPNone is the cluster IP of a headless service.
const ClusterIPNone = "None"

// Labels and annotations of Kubernetes that mean something here.
const (
	LabelServiceName            = "kubernetes.io/service-name"
	AnnotationSourceRanges      = "service.beta.kubernetes.io/load-balancer-source-ranges"
	annotationRangesApplyTo     = "portolan.dev/source-ranges-apply-to"
	annotationTopologyMode      = "service.kubernetes.io/topology-mode"
	annotationTopologyModeOlder = "service.kubernetes.io/topology-aware-hints"
)

// IsHeadless says whether the service has a name but, by wish, no virtual IP.
func IsHeadless(svc *corev1.Service) bool {
	return svc.GetSpec().GetClusterIp() == ClusterIPNone && !IsExternalName(svc)
}

// TopologyAuto reports whether the service's annotation asks for backends of the client's zone. It
// comes before spec.trafficDistribution.
func TopologyAuto(svc *corev1.Service) bool {
	notes := svc.GetMetadata().GetAnnotations()
	mode := cmp.Or(notes[annotationTopologyMode], notes[annotationTopologyModeOlder])
	return mode == "Auto" || mode == "auto"
}

// IsExternalName says whether the service is only an alias in DNS.
func IsExternalName(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME
}

// IsLoadBalancer says whether a load-balancer provider is wanted.
func IsLoadBalancer(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER
}

// NeedsClusterIP says whether the service has, or is to be given, virtual IPs.
func NeedsClusterIP(svc *corev1.Service) bool { return !IsExternalName(svc) && !IsHeadless(svc) }

// AllowsNodePorts says whether the service's type can have node ports.
func AllowsNodePorts(svc *corev1.Service) bool {
	return svc.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_NODE_PORT || IsLoadBalancer(svc)
}

// NeedsNodePorts says whether ports without a node port are to be given one.
func NeedsNodePorts(svc *corev1.Service) bool {
	if !AllowsNodePorts(svc) {
		return false
	}
	allocate := svc.GetSpec().AllocateLoadBalancerNodePorts
	return !IsLoadBalancer(svc) || allocate == nil || *allocate
}

// NeedsHealthCheckNodePort says whether every node tells load balancers on a port of its own if it has backends.
func NeedsHealthCheckNodePort(svc *corev1.Service) bool {
	return IsLoadBalancer(svc) && svc.GetSpec().GetExternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
}

// ExternallyAccessible says whether traffic from outside can be meant for the service.
func ExternallyAccessible(svc *corev1.Service) bool {
	return AllowsNodePorts(svc) || (!IsExternalName(svc) && len(svc.GetSpec().GetExternalIps()) > 0)
}

// LoadBalancerSourceRanges returns the ranges that may reach the load balancer's addresses: those of the field, else those of the older
// annotation. None means all. Entries that are no ranges, which validation refuses, are left out.
func LoadBalancerSourceRanges(svc *corev1.Service) []netip.Prefix {
	var ranges []netip.Prefix
	texts, _ := sourceRanges(svc)
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, prefix.Masked())
		}
	}
	return ranges
}

// sourceRanges returns the trimmed ranges and the field they come from.
func sourceRanges(svc *corev1.Service) (texts []string, field string) {
	texts, field = svc.GetSpec().GetLoadBalancerSourceRanges(), "spec.loadBalancerSourceRanges"
	if len(texts) == 0 {
		annotation := strings.TrimSpace(svc.GetMetadata().GetAnnotations()[AnnotationSourceRanges])
		if annotation == "" {
			return nil, field
		}
		texts, field = strings.Split(annotation, ","), "metadata.annotations["+AnnotationSourceRanges+"]"
	}
	trimmed := make([]string, len(texts))
	for i, text := range texts {
		trimmed[i] = strings.TrimSpace(text)
	}
	return trimmed, field
}
