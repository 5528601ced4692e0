package spec

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// ResolveFamilies determines the IP families of a service from the service itself, from old, the
// service before an update (nil on a create), and from the families of the installation, its
// default family first. Afterwards ipFamilies and ipFamilyPolicy are set, unless the service is an
// ExternalName or there are violations.
func ResolveFamilies(svc, old *corev1.Service, clusterFamilies []corev1.IPFamily) apierr.Violations {
	if object.IsExternalName(svc) || len(clusterFamilies) == 0 {
		return nil
	}
	if old != nil && !object.IsExternalName(old) {
		inheritFamilies(svc.Spec, old.GetSpec())
		if preferDualUnchanged(svc.Spec, old.GetSpec()) {
			return nil
		}
	}
	var c checks
	if checkClusterIPs(&c, svc); len(c.found) > 0 {
		// Malformed cluster IPs cannot be resolved. Validation reports them.
		return nil
	}
	r := resolution{checks: &c, svc: svc, spec: svc.Spec, cluster: clusterFamilies}
	r.inferFamilies()
	r.inferPolicy()
	r.requireFamilies()
	if len(c.found) == 0 {
		r.complete()
	}
	return c.found
}

// inheritFamilies sets omitted fields from the old service. If the policy changes to SingleStack,
// it removes the second cluster IP and the second family if the client left them unchanged.
func inheritFamilies(spec, old *corev1.ServiceSpec) {
	setDefault(&spec.IpFamilyPolicy, old.GetIpFamilyPolicy())
	if len(spec.IpFamilies) == 0 {
		spec.IpFamilies = slices.Clone(old.GetIpFamilies())
	}
	if spec.IpFamilyPolicy != corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK {
		return
	}
	if len(spec.ClusterIps) == 2 && slices.Equal(spec.ClusterIps, old.GetClusterIps()) {
		spec.ClusterIps = spec.ClusterIps[:1]
	}
	if len(spec.IpFamilies) == 2 && slices.Equal(spec.IpFamilies, old.GetIpFamilies()) {
		spec.IpFamilies = spec.IpFamilies[:1]
	}
}

// preferDualUnchanged reports whether a PreferDualStack service keeps its families unchanged. It
// gains or loses a family only by a change of the service, not by a change of the installation.
func preferDualUnchanged(spec, old *corev1.ServiceSpec) bool {
	const prefer = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK
	return spec.IpFamilyPolicy == prefer && old.GetIpFamilyPolicy() == prefer && len(spec.IpFamilies) > 0 &&
		slices.Equal(spec.IpFamilies, old.GetIpFamilies()) && slices.Equal(spec.ClusterIps, old.GetClusterIps())
}

type resolution struct {
	checks  *checks
	svc     *corev1.Service
	spec    *corev1.ServiceSpec
	cluster []corev1.IPFamily
}

// withoutSelector reports whether the service has neither virtual IPs nor a selector. Such a
// service may have families that the installation lacks.
func (r resolution) withoutSelector() bool {
	return object.IsHeadless(r.svc) && len(r.spec.Selector) == 0
}

func (r resolution) inferFamilies() {
	for i, ip := range r.spec.ClusterIps {
		if i >= len(r.spec.IpFamilies) && ip != object.ClusterIPNone {
			r.spec.IpFamilies = append(r.spec.IpFamilies, FamilyOf(ip))
		}
	}
	if len(r.spec.IpFamilies) == 0 {
		r.spec.IpFamilies = []corev1.IPFamily{r.cluster[0]}
	}
}

func (r resolution) inferPolicy() {
	switch {
	case r.spec.IpFamilyPolicy != 0:
	case r.withoutSelector():
		r.spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
	case len(r.spec.IpFamilies) > 1:
		r.checks.required("spec.ipFamilyPolicy", "must be 'PreferDualStack' or 'RequireDualStack' when two families or two clusterIPs are given")
	default:
		r.spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK
	}
}

// requireFamilies checks that the installation has the service's families, unless the service has
// neither virtual IPs nor a selector.
func (r resolution) requireFamilies() {
	if r.withoutSelector() {
		return
	}
	for i, family := range r.spec.IpFamilies {
		if !slices.Contains(r.cluster, family) {
			r.checks.invalid(indexed("spec.ipFamilies", i), EnumName(family), "this installation has no service addresses of this family")
		}
	}
	if r.spec.IpFamilyPolicy == corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK && len(r.cluster) < 2 {
		r.checks.invalid("spec.ipFamilyPolicy", EnumName(r.spec.IpFamilyPolicy), "this installation has service addresses of one family only")
	}
}

// complete adds the second family if the policy allows two and the installation has it. A service
// without virtual IPs and without a selector gets it in any case.
func (r resolution) complete() {
	if r.spec.IpFamilyPolicy == corev1.IPFamilyPolicy_IP_FAMILY_POLICY_SINGLE_STACK || len(r.spec.IpFamilies) != 1 {
		return
	}
	second := corev1.IPFamily_IP_FAMILY_IPV4
	if r.spec.IpFamilies[0] == second {
		second = corev1.IPFamily_IP_FAMILY_IPV6
	}
	if r.withoutSelector() || slices.Contains(r.cluster, second) {
		r.spec.IpFamilies = append(r.spec.IpFamilies, second)
	}
}
