package packing

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// Refused holds the endpoints that the registry does not accept, by EndpointKey. They are left out,
// so that they do not keep the other endpoints of their service out of the slices.
type Refused map[string]Refusal

// Refusal is the reason for which the registry does not accept an endpoint.
type Refusal struct {
	Address string
	Pod     string // empty if the endpoint has no pod
	Reason  string
}

// String returns the refusal with its endpoint.
func (r Refusal) String() string {
	if r.Pod == "" {
		return r.Address + ": " + r.Reason
	}
	return fmt.Sprintf("%s of pod %s: %s", r.Address, r.Pod, r.Reason)
}

// Texts returns the refusals as sorted texts.
func (r Refused) Texts() []string {
	texts := make([]string, 0, len(r))
	for _, refusal := range r {
		texts = append(texts, refusal.String())
	}
	slices.Sort(texts)
	return texts
}

// Add records that the registry refuses an address. ref is its pod, or nil. Add returns false if
// the refusal was recorded before.
func (r Refused) Add(address string, ref *corev1.ObjectReference, reason string) bool {
	key := EndpointKey(address, ref)
	_, known := r[key]
	r[key] = Refusal{Address: address, Pod: ref.GetName(), Reason: reason}
	return !known
}

// EndpointKey returns a key that does not depend on an endpoint's state: its address and its pod.
func EndpointKey(address string, ref *corev1.ObjectReference) string {
	return address + " " + ref.GetNamespace() + "/" + ref.GetName() + " " + ref.GetUid()
}

// endpointKey returns the EndpointKey of an endpoint in a slice.
func endpointKey(ep *corev1.Endpoint) string {
	address := ""
	if len(ep.GetAddresses()) > 0 {
		address = ep.GetAddresses()[0]
	}
	return EndpointKey(address, ep.GetTargetRef())
}

// Exclude removes the refused addresses of a pod from its verdict. A pod without any other address
// is not behind the service.
func (r Refused) Exclude(svc *corev1.Service, v *PodVerdict) {
	if !v.Selected || len(r) == 0 {
		return
	}
	ref := podRef(v.Pod)
	v.Addresses = slices.DeleteFunc(v.Addresses, func(a netip.Addr) bool {
		refusal, refused := r[EndpointKey(a.String(), ref)]
		if refused {
			v.Reason += fmt.Sprintf("; %s is left out, the registry refuses it: %s", a, refusal.Reason)
		}
		return refused
	})
	if !v.hasAddress(svc) {
		v.Selected, v.Ready, v.Serving = false, false, false
	}
}
