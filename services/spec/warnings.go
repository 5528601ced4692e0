package spec

import (
	"fmt"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
)

// EndpointsWarnings returns warnings about valid fields of an Endpoints that are probably a mistake.
func EndpointsWarnings(endpoints *corev1.Endpoints) []string {
	return append(Warnings(endpoints), "Endpoints is the older form of EndpointSlice and holds at most 1000 addresses")
}

// ServiceWarnings returns warnings about valid fields of a service that are probably a mistake.
func ServiceWarnings(svc *corev1.Service) []string {
	var warnings []string
	warn := func(when bool, format string, args ...any) {
		if when {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	spec := svc.GetSpec()
	warn(spec.GetLoadBalancerIp() != "", "spec.loadBalancerIP is deprecated: the annotations of the load-balancer provider say more")
	warn(spec.GetLoadBalancerIp() != "" && !IsLoadBalancer(svc), "spec.loadBalancerIP means nothing for type %s", EnumName(spec.GetType()))
	warn(object.IsExternalName(svc) && len(spec.GetPorts()) > 0, "spec.ports means nothing for type ExternalName")
	warn(object.IsExternalName(svc) && len(spec.GetExternalIps()) > 0, "spec.externalIPs means nothing for type ExternalName")
	warn(object.IsExternalName(svc) && FamilyOf(spec.GetExternalName()) != 0,
		"spec.externalName %q is an address, not a name: the service will not resolve; use a headless service with an EndpointSlice", spec.GetExternalName())
	warn(!object.IsExternalName(svc) && spec.GetExternalName() != "", "spec.externalName means nothing for type %s", EnumName(spec.GetType()))
	warn(object.IsHeadless(svc) && spec.GetSessionAffinity() == corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP,
		"spec.sessionAffinity means nothing for headless services")
	if object.IsHeadless(svc) && len(spec.GetSelector()) == 0 {
		for i, port := range spec.GetPorts() {
			target := port.GetTargetPort()
			warn(target.GetName() != "" || target.GetNumber() != port.GetPort(),
				"spec.ports[%d].targetPort means nothing for headless services: clients use the endpoints' own ports", i)
		}
	}
	local := spec.GetExternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
	warn(local && IsLoadBalancer(svc) && balancer.ClassOf(svc) == balancer.ClassEdge,
		"spec.externalTrafficPolicy Local is about node ports only with the class %s: edges send to endpoints of all nodes, and tell backends the address of the client by the annotation %s, or by X-Forwarded-For", balancer.ClassEdge, balancer.Prefix+"proxy-protocol")
	for _, p := range balancer.Ignored(svc) {
		warn(true, "%s: %s", p.Field(), p.Message)
	}
	return warnings
}
