package endpoints

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// Candidate is an endpoint that could be a backend of one port of a service.
type Candidate struct {
	Addr   netip.AddrPort
	Weight uint32
	Node   string
	Zone   string // empty if unknown
	Pod    string // namespace/name; empty if unknown

	Ready, Serving, Terminating bool

	// ForZones and ForNodes are the topology hints.
	ForZones, ForNodes []string
}

// servingTerminating reports whether the endpoint is terminating but still serves. KEP-1669 uses
// such endpoints if no endpoint is ready.
func (c *Candidate) servingTerminating() bool { return c.Serving && c.Terminating }

func addressType(v6 bool) corev1.AddressType {
	if v6 {
		return corev1.AddressType_ADDRESS_TYPE_IPV6
	}
	return corev1.AddressType_ADDRESS_TYPE_IPV4
}

// parseAddr returns the address of a backend, as it stands in a slice of its family.
func parseAddr(text string, v6 bool) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is no IP address", text)
	case addr.Is6() != v6 || addr.Is4In6():
		return netip.Addr{}, fmt.Errorf("%s is of another family than the slice", text)
	case addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s cannot be a backend", text)
	}
	return addr, nil
}

// NewCandidate returns the candidate of an endpoint at addr, from a slice of a namespace.
func NewCandidate(ep *corev1.Endpoint, addr netip.AddrPort, namespace string) Candidate {
	cond := ep.GetConditions()
	ready := object.IsReadyEndpoint(ep)
	serving := ready
	if cond != nil && cond.Serving != nil {
		serving = cond.GetServing()
	}
	c := Candidate{
		Addr: addr, Weight: 1, Node: ep.GetNodeName(), Zone: ep.GetZone(),
		Ready: ready, Serving: serving, Terminating: cond.GetTerminating(),
	}
	if ep.Weight != nil {
		c.Weight = min(ep.GetWeight(), 65535)
	}
	if ref := ep.GetTargetRef(); ref.GetKind() == "Pod" {
		c.Pod = object.Name{Namespace: cmp.Or(ref.GetNamespace(), namespace), Name: ref.GetName()}.String()
	}
	for _, z := range ep.GetHints().GetForZones() {
		c.ForZones = append(c.ForZones, z.GetName())
	}
	for _, n := range ep.GetHints().GetForNodes() {
		c.ForNodes = append(c.ForNodes, n.GetName())
	}
	return c
}

// dedupe sorts the candidates by address and keeps the best one of each address. An endpoint that
// moves between slices is in both for a moment.
func dedupe(all []Candidate) []Candidate {
	slices.SortStableFunc(all, func(a, b Candidate) int {
		return cmp.Or(a.Addr.Compare(b.Addr), readinessRank(&a)-readinessRank(&b))
	})
	return slices.CompactFunc(all, func(a, b Candidate) bool { return a.Addr == b.Addr })
}

func readinessRank(c *Candidate) int {
	switch {
	case c.Ready:
		return 0
	case c.Serving:
		return 1
	}
	return 2
}

// protocolOf returns a protocol, or TCP if it is not set.
func protocolOf(p corev1.Protocol) corev1.Protocol {
	return cmp.Or(p, corev1.Protocol_PROTOCOL_TCP)
}
