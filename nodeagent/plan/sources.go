package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/endpoints"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// restricted reports whether the source ranges of the service apply to an exposure. They apply to
// load-balancer addresses unless the annotation lists other exposures. Cluster IPs are never
// restricted.
func (b *builder) restricted(e Exposure) bool {
	list := splitList(b.svc.GetMetadata().GetAnnotations()[object.AnnotationRangesApplyTo])
	if len(list) == 0 {
		return e == LoadBalancerIP
	}
	name := map[Exposure]string{LoadBalancerIP: "loadBalancer", NodePort: "nodePort", ExternalIP: "externalIP"}[e]
	return slices.Contains(list, name)
}

// restrict limits the clients of a frontend that the service's source ranges apply to.
func (b *builder) restrict(attrs *Attributes, e frontendAddr) {
	if !b.restricted(e.exposure) {
		return
	}
	ranges, malformed := spec.LoadBalancerSourceRanges(b.svc)
	attrs.Restricted = len(ranges)+len(malformed) > 0
	for _, text := range malformed {
		b.report("source range %q is no CIDR", text)
	}
	for _, prefix := range ranges {
		switch {
		case prefix.Addr().Is6() != e.addr.Addr().Is6():
			// A range of the other family allows no client here, but it keeps the restriction in
			// force.
		case prefix.Bits() == 0:
			attrs.Restricted, attrs.Allowed = false, nil
			return
		default:
			attrs.Allowed = append(attrs.Allowed, prefix)
		}
	}
	slices.SortFunc(attrs.Allowed, netip.Prefix.Compare)
	attrs.Allowed = slices.Compact(attrs.Allowed)
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// healthCheck counts the ready endpoints of this node, on any port. Load balancers must not send
// traffic to a node that has none. A pod with several addresses counts once, because load balancers use the
// number as the node's weight. Without a pod each address counts.
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
			if c := endpoints.NewCandidate(ep, netip.AddrPort{}, slice.GetMetadata().GetNamespace()); c.Ready && !c.Terminating {
				for _, address := range ep.GetAddresses() {
					local[cmp.Or(c.Pod, address)] = true
				}
			}
		}
	}
	b.res.HealthCheck = &HealthCheck{Port: uint16(port), Local: len(local)}
}
