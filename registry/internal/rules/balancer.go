package rules

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/spec"
)

// checkBalancer refuses the protocols of a load balancer that its class does not offer. It refuses nothing if the
// class is unknown.
func checkBalancer(w Context, svc, old *corev1.Service) apierr.Violations {
	if !spec.IsLoadBalancer(svc) {
		return nil
	}
	offer, known := w.Offers.Of(balancer.ClassOf(svc))
	if !known {
		return nil
	}
	return spec.CheckBalancerOffer(svc, old, offer)
}
