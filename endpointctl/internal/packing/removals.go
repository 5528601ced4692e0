package packing

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
)

// Removals returns the writes that take the endpoints which are not wanted out of the existing slices, and
// that change the states of the others. The slices keep their ports and metadata and gain no endpoints, so the
// registry accepts these writes also if it refuses the wanted slices.
func Removals(w DesiredSlices, existing []*corev1.EndpointSlice) Stage {
	wanted := w.byEndpoint()
	var stage Stage
	for _, old := range sortedByName(existing) {
		keep, changed := make([]*corev1.Endpoint, 0, len(old.GetEndpoints())), false
		for _, have := range old.GetEndpoints() {
			want := wanted[endpointID{old.GetAddressType(), endpointKey(have)}]
			if want == nil {
				changed = true
				continue
			}
			keep, changed = append(keep, want), changed || !have.EqualVT(want)
		}
		switch {
		case !changed:
		case len(keep) == 0:
			stage.Delete = append(stage.Delete, old)
		default:
			stage.Update = append(stage.Update, &corev1.EndpointSlice{
				Metadata: old.GetMetadata().CloneVT(), AddressType: old.GetAddressType(), Ports: old.GetPorts(), Endpoints: keep,
			})
		}
	}
	return stage
}

// endpointID is an endpoint in any slice of an address type.
type endpointID struct {
	addressType corev1.AddressType
	key         string // its endpointKey
}

// byEndpoint returns the wanted endpoints of all groups.
func (w *DesiredSlices) byEndpoint() map[endpointID]*corev1.Endpoint {
	all := map[endpointID]*corev1.Endpoint{}
	for i := range w.Groups {
		for _, item := range w.Groups[i].endpointItems() {
			all[endpointID{item.family, item.key}] = item.endpoint
		}
	}
	return all
}

// EndpointsRemovals returns the existing Endpoints without the addresses that the wanted one lacks, and with
// the addresses that are not ready any more in their place. If nothing is to be removed, it returns existing
// itself.
func EndpointsRemovals(want, existing *corev1.Endpoints) *corev1.Endpoints {
	ready, notReady := map[string]bool{}, map[string]bool{}
	for _, s := range want.GetSubsets() {
		for _, a := range s.GetAddresses() {
			ready[EndpointKey(a.GetIp(), a.GetTargetRef())] = true
		}
		for _, a := range s.GetNotReadyAddresses() {
			notReady[EndpointKey(a.GetIp(), a.GetTargetRef())] = true
		}
	}
	smaller := &corev1.Endpoints{Metadata: existing.GetMetadata().CloneVT()}
	for _, old := range existing.GetSubsets() {
		s := &corev1.EndpointSubset{Ports: old.GetPorts()}
		for _, a := range old.GetAddresses() {
			switch key := EndpointKey(a.GetIp(), a.GetTargetRef()); {
			case ready[key]:
				s.Addresses = append(s.Addresses, a)
			case notReady[key]:
				s.NotReadyAddresses = append(s.NotReadyAddresses, a)
			}
		}
		for _, a := range old.GetNotReadyAddresses() {
			if key := EndpointKey(a.GetIp(), a.GetTargetRef()); ready[key] || notReady[key] {
				s.NotReadyAddresses = append(s.NotReadyAddresses, a)
			}
		}
		slices.SortFunc(s.NotReadyAddresses, compareAddresses)
		if !isEmptySubset(s) {
			smaller.Subsets = append(smaller.Subsets, s)
		}
	}
	if sameSubsets(smaller.GetSubsets(), existing.GetSubsets()) {
		return existing
	}
	return smaller
}
