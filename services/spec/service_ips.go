package spec

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// checkClusterIPs checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy, each by itself and
// then together.
func checkClusterIPs(c *checks, svc *corev1.Service) {
	if object.IsExternalName(svc) {
		return
	}
	spec := svc.GetSpec()
	before := len(c.found)
	checkPrimary(c, spec)
	checkFamilies(c, spec)
	for i, ip := range spec.GetClusterIps() {
		if ip != object.ClusterIPNone {
			checkAddress(c, indexed("spec.clusterIPs", i), ip)
		} else if len(spec.GetClusterIps()) > 1 {
			c.invalid(indexed("spec.clusterIPs", i), ip, "'None' must be the first and only value")
		}
	}
	if len(spec.GetClusterIps()) > 2 {
		c.tooMany("spec.clusterIPs", len(spec.GetClusterIps()), 2)
	}
	if len(c.found) == before {
		checkClusterIPFamilies(c, svc)
	}
}

func checkPrimary(c *checks, spec *corev1.ServiceSpec) {
	ip, ips := spec.GetClusterIp(), spec.GetClusterIps()
	switch {
	case ip != "" && len(ips) == 0:
		c.required("spec.clusterIPs", "must be set when spec.clusterIP is")
	case ip == "" && len(ips) > 0:
		c.required("spec.clusterIP", "must be set when spec.clusterIPs is, to its first value")
	case ip != "" && ip != ips[0]:
		c.invalid("spec.clusterIPs", ips[0], "the first value must equal spec.clusterIP, which is %q", truncate(ip))
	}
}

func checkFamilies(c *checks, spec *corev1.ServiceSpec) {
	families := spec.GetIpFamilies()
	for i, family := range families {
		field := indexed("spec.ipFamilies", i)
		if checkEnum(c, field, family) && slices.Contains(families[:i], family) {
			c.duplicate(field, EnumName(family))
		}
	}
	if policy := spec.GetIpFamilyPolicy(); policy != 0 {
		checkEnum(c, "spec.ipFamilyPolicy", policy)
	}
	if spec.GetIpFamilyPolicy() != corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK {
		return
	}
	if len(families) > 1 {
		c.tooMany("spec.ipFamilies", len(families), 1)
	}
	if len(spec.GetClusterIps()) == 2 {
		c.tooMany("spec.clusterIPs", 2, 1)
	}
}

func checkClusterIPFamilies(c *checks, svc *corev1.Service) {
	if object.IsHeadless(svc) {
		return
	}
	ips, families := svc.GetSpec().GetClusterIps(), svc.GetSpec().GetIpFamilies()
	if len(ips) == 2 && FamilyOf(ips[0]) == FamilyOf(ips[1]) {
		c.invalid("spec.clusterIPs[1]", ips[1], "there can be one address of each family")
		return
	}
	for i, ip := range ips {
		if i < len(families) && FamilyOf(ip) != families[i] {
			c.invalid(indexed("spec.clusterIPs", i), ip, "must be an %s address, as spec.ipFamilies[%d] says", EnumName(families[i]), i)
		}
	}
}
