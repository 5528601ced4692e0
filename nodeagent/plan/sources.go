package plan

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/proto/portolan/core/v1"
)

// sourceRangesAnnotation is the older form of spec.loadBalancerSourceRanges,
// which wins.
const sourceRangesAnnotation = "service.beta.kubernetes.io/load-balancer-source-ranges"

// restrict limits the clients of a load balancer's address. The ranges do not
// protect node ports, external IPs and cluster IPs.
func (b *builder) restrict(attrs *Attributes, e exposed) {
	if e.exposure != LoadBalancerIP {
		return
	}
	ranges := b.spec.GetLoadBalancerSourceRanges()
	if len(ranges) == 0 {
		ranges = splitList(b.svc.GetMetadata().GetAnnotations()[sourceRangesAnnotation])
	}
	if len(ranges) == 0 {
		return
	}
	attrs.Restricted = true
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		switch {
		case err != nil:
			b.report("source range %q is no CIDR", text)
		case prefix.Addr().Is6() != e.addr.Addr().Is6():
			// The other family's: it neither allows nor lifts the restriction.
		case prefix.Bits() == 0:
			attrs.Restricted, attrs.Allowed = false, nil
			return
		default:
			attrs.Allowed = append(attrs.Allowed, prefix.Masked())
		}
	}
	slices.SortFunc(attrs.Allowed, netip.Prefix.Compare)
	attrs.Allowed = slices.Compact(attrs.Allowed)
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// healthCheck counts the ready endpoints of this node, whatever port they are
// on, for load balancers that must not send traffic to a node without.
func (b *builder) healthCheck() {
	port := b.spec.GetHealthCheckNodePort()
	if port < 1 || port > 65535 ||
		b.spec.GetType() != corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER ||
		b.spec.GetExternalTrafficPolicy() != corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL {
		return
	}
	local := map[string]bool{}
	for _, slice := range b.slices {
		if slice.GetAddressType() == corev1.AddressType_ADDRESS_TYPE_FQDN {
			continue
		}
		for _, ep := range slice.GetEndpoints() {
			if len(ep.GetAddresses()) == 0 || ep.GetNodeName() != b.facts.Node {
				continue
			}
			if c := newCandidate(ep, netip.AddrPort{}, ""); c.Ready && !c.Terminating {
				local[ep.GetAddresses()[0]] = true
			}
		}
	}
	b.res.HealthCheck = &HealthCheck{Port: uint16(port), Local: len(local)}
}
