package spec

import (
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// internalRequest is an annotation by which a service can ask for an internal load balancer.
type internalRequest struct {
	annotation string
	// value is the one that asks for it, in any case; "": any value but "false".
	value string
}

// internalRequests are the annotations of cloud providers, which manifests have, after Portolan's own.
// That one decides if it is there.
var internalRequests = []internalRequest{
	{annotation: object.AnnotationBalancerInternal},
	{annotation: "service.beta.kubernetes.io/aws-load-balancer-internal"}, // "0.0.0.0/0" or "true"
	{annotation: "service.beta.kubernetes.io/azure-load-balancer-internal"},
	{annotation: "service.beta.kubernetes.io/openstack-internal-load-balancer"},
	{annotation: "service.beta.kubernetes.io/cce-load-balancer-internal-vpc"},
	{annotation: "service.beta.kubernetes.io/oci-load-balancer-internal"},
	{annotation: "service.kubernetes.io/qcloud-loadbalancer-internal-subnetid"}, // a subnet
	{annotation: "networking.gke.io/load-balancer-type", value: "Internal"},
	{annotation: "cloud.google.com/load-balancer-type", value: "Internal"},
	{annotation: "service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type", value: "private"},
	{annotation: "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type", value: "intranet"},
}

// InternalBalancer returns the annotation by which a service asks for an internal load balancer, which
// only the own network reaches, or "" if it does not ask for one.
func InternalBalancer(svc *corev1.Service) string {
	annotations := svc.GetMetadata().GetAnnotations()
	for _, r := range internalRequests {
		value := strings.TrimSpace(annotations[r.annotation])
		asks := value != "" && !strings.EqualFold(value, "false")
		if r.value != "" {
			asks = strings.EqualFold(value, r.value)
		}
		switch {
		case asks:
			return r.annotation
		case value != "" && r.annotation == object.AnnotationBalancerInternal:
			return ""
		}
	}
	return ""
}
