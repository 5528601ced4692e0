package pool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// maxPerFamily is the largest number of addresses of one family that a service may request.
const maxPerFamily = 8

// families are all families, in the order of the addresses in a status.
var families = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4, corev1.IPFamily_IP_FAMILY_IPV6}

// wish is a wish for one address.
type wish struct {
	family corev1.IPFamily
	number int    // index among the wishes of the family
	slot   string // of the claim in the allocator
	// value is the requested address, or the granted one after the claim. Empty means any address.
	value string
	// has is the address at the same index in the service's status; "": none.
	has string
	// newest is set if the wish is for the address that the owner has claimed last in the slot, before has.
	newest bool
	// optional is set if the service does not need an address of this family.
	optional bool
}

// wishesOf returns the addresses that a service should have, in the order of its families.
func wishesOf(svc *corev1.Service) ([]wish, error) {
	requested, err := requestedOf(svc)
	if err != nil {
		return nil, err
	}
	own := svc.GetSpec().GetIpFamilies()
	if len(own) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the service has no family of addresses: set spec.ipFamilies")
	}
	has := addressesOf(svc)
	required := svc.GetSpec().GetIpFamilyPolicy() != corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK
	var wishes []wish
	for _, family := range own {
		values := requested[family]
		delete(requested, family)
		if len(values) == 0 {
			values = []string{""}
		}
		for n, value := range values {
			w := wish{family: family, number: n, slot: spec.BalancerSlot(family, n), value: value, optional: !required && value == ""}
			if n < len(has[family]) {
				w.has = has[family][n]
			}
			wishes = append(wishes, w)
		}
	}
	for family, values := range requested {
		return nil, status.Errorf(codes.InvalidArgument, "%s is requested, but the service has no addresses of the family %s: change the request, or spec.ipFamilies", values[0], spec.EnumName(family))
	}
	return wishes, nil
}

// requestedOf returns the addresses that a service requests, by family. They are in the annotation. If it is
// missing, the older field spec.loadBalancerIP has one.
func requestedOf(svc *corev1.Service) (map[corev1.IPFamily][]string, error) {
	annotations := svc.GetMetadata().GetAnnotations()
	text, source := cmp.Or(annotations[object.AnnotationBalancerIPs], annotations[object.AnnotationBalancerIPsOlder]), "annotation "+object.AnnotationBalancerIPs
	if text == "" {
		text, source = svc.GetSpec().GetLoadBalancerIp(), "spec.loadBalancerIP"
	}
	requested := map[corev1.IPFamily][]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		addr, err := netip.ParseAddr(part)
		if err != nil || addr.Zone() != "" {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %.64q is no address: give addresses separated by commas", source, part)
		}
		value := addr.Unmap().String()
		family := spec.FamilyOf(value)
		if slices.Contains(requested[family], value) {
			continue
		}
		if requested[family] = append(requested[family], value); len(requested[family]) > maxPerFamily {
			return nil, status.Errorf(codes.InvalidArgument, "%s: more than %d addresses of one family", source, maxPerFamily)
		}
	}
	return requested, nil
}

// addressesOf returns the addresses in a service's status, by family.
func addressesOf(svc *corev1.Service) map[corev1.IPFamily][]string {
	all := map[corev1.IPFamily][]string{}
	for _, ingress := range svc.GetStatus().GetLoadBalancer().GetIngress() {
		if ip := ingress.GetIp(); ip != "" {
			all[spec.FamilyOf(ip)] = append(all[spec.FamilyOf(ip)], ip)
		}
	}
	return all
}

// allSlots returns all slots that an owner of addresses can have.
func allSlots() []string {
	var all []string
	for _, family := range families {
		for n := range maxPerFamily {
			all = append(all, spec.BalancerSlot(family, n))
		}
	}
	return all
}

// describe names a wish in messages.
func (w *wish) describe() string {
	return cmp.Or(w.value, fmt.Sprintf("an address of the family %s", spec.EnumName(w.family)))
}
