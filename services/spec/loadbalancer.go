package spec

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
)

// PendingLoadBalancer returns the reason why a service of type LoadBalancer has no address yet. It
// returns the empty string if the service has an address or another type.
func PendingLoadBalancer(svc *corev1.Service) string {
	if !IsLoadBalancer(svc) || len(svc.GetStatus().GetLoadBalancer().GetIngress()) > 0 {
		return ""
	}
	provider := "load-balancer provider"
	if class := svc.GetSpec().GetLoadBalancerClass(); class != "" {
		provider += fmt.Sprintf(" of class %q", class)
	}
	return "no " + provider + " has set an address in status.loadBalancer, and Portolan has none of its own: " +
		"run one, or use type NodePort or spec.externalIPs"
}
