package spec

import (
	"encoding/json"
	"maps"
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
// has no offers that this release can read. It leaves out classes of which the protocols are not reported.
func BalancerOffersOf(lease *corev1.Lease) BalancerOffers {
	text := lease.GetMetadata().GetAnnotations()[object.AnnotationBalancerOffers]
	if text == "" || lease.GetSpec().GetHolderIdentity() == "" || !IsBalancerLease(lease) {
		return nil
	}
	var offers BalancerOffers
	if json.Unmarshal([]byte(text), &offers) != nil {
		return nil
	}
	maps.DeleteFunc(offers, func(_ string, offer BalancerOffer) bool { return offer.Protocols == nil })
	return offers
}

// Join returns the capabilities that at least one of two offers has.
func (o BalancerOffer) Join(other BalancerOffer) BalancerOffer {
	protocols := slices.Concat(o.Protocols, other.Protocols)
	slices.Sort(protocols)
	return BalancerOffer{Protocols: slices.Compact(protocols), MixedProtocols: o.MixedProtocols || other.MixedProtocols}
}

// has reports whether the class offers a protocol.
func (o BalancerOffer) has(protocol corev1.Protocol) bool {
	return slices.Contains(o.Protocols, EnumName(protocol))
}

// String lists the protocols for people.
func (o BalancerOffer) String() string {
	if len(o.Protocols) == 0 {
		return "no protocol"
	}
	return "only " + strings.Join(o.Protocols, ", ")
}

// CheckBalancerOffer refuses the ports of a load balancer that its class does not offer. old is the version that svc
// replaces, or nil. Protocols that the old version has with the same class stay, so that a service remains changeable
// when its class offers less than before.
func CheckBalancerOffer(svc, old *corev1.Service, offer BalancerOffer) apierr.Violations {
	if !IsLoadBalancer(svc) {
		return nil
	}
	var found apierr.Violations
	class, had := balancer.ClassOf(svc), balancedProtocols(svc, old)
	first := firstProtocol(svc, had, offer)
	for i, port := range svc.GetSpec().GetPorts() {
		field, protocol := indexed("spec.ports", i)+".protocol", port.GetProtocol()
		switch {
		case slices.Contains(had, protocol):
		case !offer.has(protocol):
			found.Add(field, apierr.ReasonNotSupported,
				"unsupported value %q: load balancers of the class %q forward %s: change the protocol, or use another spec.loadBalancerClass or type NodePort",
				EnumName(protocol), class, offer)
		case protocol != first && !offer.MixedProtocols:
			found.Add(field, apierr.ReasonNotSupported,
				"unsupported value %q: load balancers of the class %q take one protocol for each service, and another port has %s: make a service for each protocol",
				EnumName(protocol), class, EnumName(first))
		}
	}
	return found
}

// balancedProtocols returns the protocols that the old version of a service has, if it has a load balancer of the same
// class as the new version.
func balancedProtocols(svc, old *corev1.Service) []corev1.Protocol {
	if !IsLoadBalancer(old) || balancer.ClassOf(old) != balancer.ClassOf(svc) {
		return nil
	}
	var had []corev1.Protocol
	for _, port := range old.GetSpec().GetPorts() {
		had = append(had, port.GetProtocol())
	}
	return had
}

// firstProtocol returns the first protocol of a service that it has had, or else the first that its class offers. Other
// protocols are mixed with this one.
func firstProtocol(svc *corev1.Service, had []corev1.Protocol, offer BalancerOffer) (first corev1.Protocol) {
	for _, port := range svc.GetSpec().GetPorts() {
		protocol := port.GetProtocol()
		if slices.Contains(had, protocol) {
			return protocol
		}
		if first == 0 && offer.has(protocol) {
			first = protocol
		}
	}
	return first
}
