package packing

import (
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
)

// Sizes of the parts of slices and Endpoints, in bytes. Names and labels of pods and nodes have limits, so the
// parts have limits too.
const (
	maxEndpointBytes = 1200 // an endpoint of a pod in a slice
	maxAddressBytes  = 800  // an address of a pod in an Endpoints
	// identityBytes has room for the metadata that a stored object has besides the wanted metadata.
	identityBytes = 1024
)

// Largest encoded sizes of the objects, as the registry accepts them.
var (
	maxSliceBytes     = kinds.Of(&corev1.EndpointSlice{}).MaxBytes
	maxEndpointsBytes = kinds.Of(&corev1.Endpoints{}).MaxBytes
)

// perSlice returns the largest number of endpoints in a slice of a group. It is less than MaxPerSlice if the
// group has so many ports that a slice would become larger than the registry accepts.
func (w *DesiredSlices) perSlice(g *Group) int {
	most := w.MaxPerSlice
	if most <= 0 {
		most = DefaultMaxPerSlice
	}
	room := maxSliceBytes - identityBytes - w.Template.newSlice(g.AddressType, g.Ports).SizeVT()
	return max(1, min(most, room/maxEndpointBytes))
}

// shortenToSize shortens the lists of subsets until they fit into a number of bytes. It reports whether it left
// out addresses. Pods with different numbers for a named port have subsets with all ports each, so the ports may
// need more room than the addresses.
func shortenToSize(subsets []*corev1.EndpointSubset, room int) (truncated bool) {
	for {
		size, addresses := 0, 0
		for _, s := range subsets {
			n := len(s.GetAddresses()) + len(s.GetNotReadyAddresses())
			if addresses += n; n > 0 {
				size += subsetPortsBytes(s) + n*maxAddressBytes
			}
		}
		if size <= room || addresses == 0 {
			return truncated
		}
		truncated = truncate(subsets, min(addresses-1, addresses*3/4))
	}
}

// subsetPortsBytes returns the size of a subset without its addresses.
func subsetPortsBytes(s *corev1.EndpointSubset) int {
	return (&corev1.EndpointSubset{Ports: s.GetPorts()}).SizeVT() + 8 // its length and its tag
}
