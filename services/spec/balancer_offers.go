package spec

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// BalancerOffer has the capabilities of a class of load balancers that new services are checked against.
type BalancerOffer struct {
	// Protocols are the words of the protocols, such as "TCP".
	Protocols []string `json:"protocols"`
	// MixedProtocols is set if the ports of one service may have different protocols.
	MixedProtocols bool `json:"mixedProtocols,omitempty"`
}

// BalancerOffers has the offers of classes by their names. A class that is missing is unknown.
type BalancerOffers map[string]BalancerOffer

// offersSuffix ends the names of the Leases with offers.
const offersSuffix = "-offers"

// BalancerOffersLease returns the name of the Lease in which the leader of lbctl's replicas reports its offers. lease
// is the name of the replicas' own Lease.
func BalancerOffersLease(lease string) string { return lease + offersSuffix }

// IsBalancerOffersLeaseName reports whether the name is the name of a Lease with offers.
func IsBalancerOffersLeaseName(name string) bool { return strings.HasSuffix(name, offersSuffix) }

// SetBalancerOffers writes offers into a Lease of lbctl.
func SetBalancerOffers(lease *corev1.Lease, offers BalancerOffers) error {
	text, err := json.Marshal(offers)
	if err != nil {
		return err
	}
	meta := object.MetaOf(lease)
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[object.AnnotationBalancerOffers] = string(text)
	return nil
}

// BalancerOffersOf returns the offers in a Lease. The result is empty if the Lease is not lbctl's, has no holder, or
// has no offers that this release can read.
func BalancerOffersOf(lease *corev1.Lease) BalancerOffers {
	text := lease.GetMetadata().GetAnnotations()[object.AnnotationBalancerOffers]
	if text == "" || lease.GetSpec().GetHolderIdentity() == "" || !IsBalancerLease(lease) {
		return nil
	}
	var offers BalancerOffers
	if json.Unmarshal([]byte(text), &offers) != nil {
		return nil
	}
	return offers
}

// Join returns the capabilities that at least one of two offers has.
func (o BalancerOffer) Join(other BalancerOffer) BalancerOffer {
	protocols := slices.Concat(o.Protocols, other.Protocols)
	slices.Sort(protocols)
	return BalancerOffer{Protocols: slices.Compact(protocols), MixedProtocols: o.MixedProtocols || other.MixedProtocols}
}

// CheckBalancerOffer refuses the ports of a load balancer that its class does not offer. old is the version that svc
// replaces, or nil. Protocols that the old version has with the same class stay, so that a service remains changeable
// when its class offers less than before.
func CheckBalancerOffer(svc, old *corev1.Service, offer BalancerOffer) apierr.Violations {
	if !IsLoadBalancer(svc) || len(svc.GetSpec().GetPorts()) == 0 {
		return nil
	}
	var had []corev1.Protocol
	if IsLoadBalancer(old) && balancer.ClassOf(old) == balancer.ClassOf(svc) {
		had = protocolsOf(old)
	}
	var found apierr.Violations
	var first corev1.Protocol // of those that the service may have
	for _, protocol := range protocolsOf(svc) {
		if slices.Contains(had, protocol) {
			first = protocol
			break
		}
	}
	for i, protocol := range protocolsOf(svc) {
		if slices.Contains(had, protocol) {
			continue
		}
		offered := slices.Contains(offer.Protocols, EnumName(protocol))
		if offered && first == 0 {
			first = protocol
		}
		switch field := indexed("spec.ports", i) + ".protocol"; {
		case !offered:
			found.Add(field, apierr.ReasonNotSupported,
				"unsupported value %q: load balancers of the class %q forward %s: change the protocol, or use another spec.loadBalancerClass or type NodePort",
				EnumName(protocol), balancer.ClassOf(svc), protocolsText(offer))
		case protocol != first && !offer.MixedProtocols:
			found.Add(field, apierr.ReasonNotSupported,
				"unsupported value %q: load balancers of the class %q take one protocol for each service, and another port has %s: make a service for each protocol",
				EnumName(protocol), balancer.ClassOf(svc), EnumName(first))
		}
	}
	return found
}

// protocolsOf returns the protocol of each port.
func protocolsOf(svc *corev1.Service) []corev1.Protocol {
	var all []corev1.Protocol
	for _, port := range svc.GetSpec().GetPorts() {
		all = append(all, port.GetProtocol())
	}
	return all
}

// protocolsText lists the protocols of an offer for people.
func protocolsText(offer BalancerOffer) string {
	if len(offer.Protocols) == 0 {
		return "no protocol"
	}
	return "only " + strings.Join(offer.Protocols, ", ")
}
