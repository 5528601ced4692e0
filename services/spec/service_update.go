package spec

import (
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// ValidateServiceUpdate checks a service that is to replace old. It does not check the name again,
// because an older release may have accepted a name that is invalid now.
func ValidateServiceUpdate(updated, old *corev1.Service, rules Rules) apierr.Violations {
	var c checks
	if !object.IsExternalName(updated) && !object.IsExternalName(old) {
		checkClusterIPChange(&c, updated.GetSpec(), old.GetSpec())
		if !object.IsHeadless(updated) || !object.IsHeadless(old) {
			checkFamilyChange(&c, updated.GetSpec(), old.GetSpec())
		}
	}
	if class := updated.GetSpec().GetLoadBalancerClass(); IsLoadBalancer(updated) && IsLoadBalancer(old) && class != old.GetSpec().GetLoadBalancerClass() {
		c.immutable("spec.loadBalancerClass", class)
	}
	if port := updated.GetSpec().GetHealthCheckNodePort(); NeedsHealthCheckNodePort(updated) && NeedsHealthCheckNodePort(old) &&
		old.GetSpec().GetHealthCheckNodePort() != 0 && port != old.GetSpec().GetHealthCheckNodePort() {
		c.immutable("spec.healthCheckNodePort", port)
	}
	validateServiceSpec(&c, updated, rules)
	return c.found
}

func checkClusterIPChange(c *checks, updated, old *corev1.ServiceSpec) {
	checkPairChange(c, updated, "spec.clusterIPs", updated.GetClusterIps(), old.GetClusterIps())
}

func checkFamilyChange(c *checks, updated, old *corev1.ServiceSpec) {
	names := func(families []corev1.IPFamily) []string {
		texts := make([]string, len(families))
		for i, family := range families {
			texts[i] = EnumName(family)
		}
		return texts
	}
	checkPairChange(c, updated, "spec.ipFamilies", names(updated.GetIpFamilies()), names(old.GetIpFamilies()))
}

// checkPairChange checks the change of a list of one or two values. The first value cannot change.
// The second can be added or removed but not changed, and the policy must fit.
func checkPairChange(c *checks, spec *corev1.ServiceSpec, field string, updated, old []string) {
	for i, value := range old {
		if i < len(updated) && updated[i] != value {
			c.immutable(indexed(field, i), updated[i])
		}
	}
	single := spec.GetIpFamilyPolicy() == 0 || spec.GetIpFamilyPolicy() == corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK
	switch {
	case len(updated) == 0 && len(old) > 0:
		c.invalid(indexed(field, 0), "", "the first may not be unset")
	case len(updated) == 1 && len(old) == 2 && !single:
		c.invalid("spec.ipFamilyPolicy", EnumName(spec.GetIpFamilyPolicy()), "must be 'SingleStack' when the second of %s is given up", field)
	case len(updated) == 2 && len(old) == 1 && single:
		c.invalid("spec.ipFamilyPolicy", EnumName(spec.GetIpFamilyPolicy()), "must be 'PreferDualStack' or 'RequireDualStack' when a second of %s is added", field)
	}
}

// ValidateServiceStatus checks the status of a service, which a load-balancer provider writes.
func ValidateServiceStatus(svc *corev1.Service, rules Rules) apierr.Violations {
	var c checks
	checkConditions(&c, svc.GetStatus().GetConditions())
	const field = "status.loadBalancer.ingress"
	ingresses := svc.GetStatus().GetLoadBalancer().GetIngress()
	if len(ingresses) > 0 && !IsLoadBalancer(svc) {
		c.forbidden(field, "may only be set when spec.type is \"LoadBalancer\"")
		// Nothing is defaulted for other types, so the checks below would report missing details
		// too.
		return c.found
	}
	for i, ingress := range ingresses {
		checkIngress(&c, indexed(field, i), ingress, rules)
		if slices.ContainsFunc(ingresses[:i], func(other *corev1.LoadBalancerIngress) bool { return proto.Equal(other, ingress) }) {
			c.duplicate(indexed(field, i), ingress.GetIp()+ingress.GetHostname())
		}
	}
	return c.found
}

// isLocalBalancer reports whether an address is a loopback address in an installation on one machine.
// There load balancers have no other addresses.
func isLocalBalancer(addr netip.Addr, rules Rules) bool {
	return addr.IsLoopback() && len(rules.LoopbackEndpoints) > 0
}

func checkIngress(c *checks, field string, ingress *corev1.LoadBalancerIngress, rules Rules) {
	if ingress.GetIp() == "" && ingress.GetHostname() == "" {
		c.required(field+".ip", "an ingress has an ip or a hostname")
	}
	if ingress.GetIp() != "" {
		if addr, ok := checkAddress(c, field+".ip", ingress.GetIp()); ok && (isLocalBalancer(addr, rules) || checkNotSpecial(c, field+".ip", addr)) {
			checkExternalAddress(c, field+".ip", addr, rules)
		}
		checkEnum(c, field+".ipMode", ingress.GetIpMode())
	} else if ingress.GetIpMode() != 0 {
		c.forbidden(field+".ipMode", "may only be set with ip")
	}
	if name := ingress.GetHostname(); name != "" {
		c.syntax(field+".hostname", name, DNSSubdomain(name))
		if FamilyOf(name) != 0 {
			c.invalid(field+".hostname", name, "must be a DNS name; addresses go into ip")
		}
	}
	for i, port := range ingress.GetPorts() {
		checkPort(c, indexed(field+".ports", i)+".port", port.GetPort())
		checkEnum(c, indexed(field+".ports", i)+".protocol", port.GetProtocol())
		if port.Error != nil {
			c.syntax(indexed(field+".ports", i)+".error", *port.Error, QualifiedName(*port.Error))
		}
	}
}
