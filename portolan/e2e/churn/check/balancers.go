package check

import (
	"context"
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Balancers checks that each service of type LoadBalancer has one address, or that another one has the address that it
// requests, and that no service waits for the deletion of its load balancer. It reads nothing but the world.
type Balancers struct{}

// Name implements Checker.
func (Balancers) Name() string { return "load balancers" }

// Check implements Checker.
func (c Balancers) Check(_ context.Context, want *model.World) ([]Finding, error) {
	owners := map[string]bool{}
	for _, svc := range model.Of[*corev1.Service](want) {
		for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
			owners[ingress.GetIp()] = true
		}
	}
	var findings []Finding
	for _, svc := range model.Of[*corev1.Service](want) {
		if svc.GetSpec().GetType() != corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER {
			continue
		}
		if problem := unsettled(svc, owners); problem != "" {
			findings = append(findings, Finding{Check: c.Name(), Object: object.KeyOf(svc), Problem: problem})
		}
	}
	return findings, nil
}

// unsettled returns why lbctl has to go on with a service, or "". owners has the addresses that services have.
func unsettled(svc *corev1.Service, owners map[string]bool) string {
	condition := object.Condition(svc.GetStatus().GetConditions(), object.ConditionLoadBalancer)
	ingress := svc.GetStatus().GetLoadBalancer().GetIngress()
	requested := svc.GetMetadata().GetAnnotations()[object.AnnotationBalancerIPs]
	switch {
	case svc.GetMetadata().GetDeletionTimestamp() != nil:
		return "the service is being deleted"
	case len(ingress) == 1 && condition.GetReason() == "Ensured" && (requested == "" || requested == ingress[0].GetIp()):
		return ""
	case len(ingress) == 0 && condition.GetReason() == "Refused" && owners[requested]:
		return ""
	}
	return fmt.Sprintf("it has %v, requests %q, and the condition is %s: %s", ingress, requested, condition.GetReason(), condition.GetMessage())
}
