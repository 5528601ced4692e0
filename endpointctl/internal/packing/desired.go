package packing

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// Group holds the wanted endpoints of one address type and one set of ports.
type Group struct {
	AddressType corev1.AddressType
	Ports       []*corev1.EndpointPort
	Endpoints   []*corev1.Endpoint

	items []*endpointOfPod // of Endpoints; nil if they were not made yet
	id    groupKey         // the key if it is known, because computing it sorts the ports
}

type groupKey struct {
	addressType corev1.AddressType
	ports       string
}

func (g *Group) key() groupKey {
	if g.id == (groupKey{}) {
		g.id = groupKey{g.AddressType, portsKey(g.Ports)}
	}
	return g.id
}

// endpointItems returns the endpoints with their keys.
func (g *Group) endpointItems() []*endpointOfPod {
	if g.items == nil {
		g.items = make([]*endpointOfPod, len(g.Endpoints))
		for i, ep := range g.Endpoints {
			g.items[i] = &endpointOfPod{family: g.AddressType, key: endpointKey(ep), endpoint: ep}
		}
	}
	return g.items
}

// DesiredSlices describes the wanted slices of a service.
type DesiredSlices struct {
	Template Template
	// Families are the families that keep an empty slice if they have no endpoint, so that
	// consumers see that the service is known.
	Families []corev1.AddressType
	Groups   []Group
	// MaxPerSlice is the largest number of endpoints in a slice.
	MaxPerSlice int
}

// SlicesFromPods returns the wanted slices of a service with a selector. The verdicts are ordered by
// the names of their pods, so that the same pods give the same slices.
func SlicesFromPods(svc *corev1.Service, verdicts []*PodVerdict, maxPerSlice int) DesiredSlices {
	w := DesiredSlices{Template: serviceTemplate(svc), Families: families(svc), MaxPerSlice: maxPerSlice}
	groups := map[groupKey]*Group{}
	for _, family := range w.Families {
		var key groupKey
		var g *Group
		for _, v := range verdicts {
			e := v.of(family)
			if e == nil {
				continue
			}
			if next := (groupKey{family, v.ports.key}); g == nil || next != key {
				key, g = next, groupWith(groups, next, v.ports.list)
			}
			g.Endpoints, g.items = append(g.Endpoints, e.endpoint), append(g.items, e)
		}
	}
	w.Groups = sortedGroups(groups)
	return w
}

// groupWith returns the group with a key. It makes the group if there is none.
func groupWith(groups map[groupKey]*Group, key groupKey, ports []*corev1.EndpointPort) *Group {
	g := groups[key]
	if g == nil {
		g = &Group{AddressType: key.addressType, Ports: ports, id: key}
		groups[key] = g
	}
	return g
}

func sortedGroups(groups map[groupKey]*Group) []Group {
	all := make([]Group, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		x, y := a.key(), b.key()
		return cmp.Or(cmp.Compare(x.addressType, y.addressType), strings.Compare(x.ports, y.ports))
	})
	return all
}

// endpoint returns the endpoint of a pod, or nil if the pod has no address of the family.
func endpoint(svc *corev1.Service, v *PodVerdict, family corev1.AddressType) *corev1.Endpoint {
	at := slices.IndexFunc(v.Addresses, func(a netip.Addr) bool { return addressType(a) == family })
	if at < 0 {
		return nil
	}
	terminating := v.Pod.GetMetadata().GetDeletionTimestamp() != nil
	ep := &corev1.Endpoint{
		Addresses:  []string{v.Addresses[at].String()},
		Conditions: &corev1.EndpointConditions{Ready: &v.Ready, Serving: &v.Serving, Terminating: &terminating},
		TargetRef:  podRef(v.Pod),
		Hostname:   hostname(svc, v.Pod),
	}
	if s := v.Pod.GetSpec(); s != nil {
		ep.Weight = s.Weight
	}
	if name := v.Pod.GetSpec().GetNodeName(); name != "" {
		ep.NodeName = &name
	}
	if v.node.Zone != "" {
		ep.Zone = &v.node.Zone
	}
	ep.Hints = hints(svc, ep)
	return ep
}

func podRef(pod *corev1.Pod) *corev1.ObjectReference {
	meta := pod.GetMetadata()
	return &corev1.ObjectReference{Kind: "Pod", Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid()}
}

// hostname returns the pod's DNS name below the service, or nil if it has none.
func hostname(svc *corev1.Service, pod *corev1.Pod) *string {
	s, meta := pod.GetSpec(), svc.GetMetadata()
	if s.GetHostname() == "" || s.GetSubdomain() != meta.GetName() || pod.GetMetadata().GetNamespace() != meta.GetNamespace() {
		return nil
	}
	name := s.GetHostname()
	return &name
}

// hints returns the zones or nodes that should prefer an endpoint. Only ready endpoints have hints,
// because consumers follow hints only if all ready endpoints have some. With the topology mode Auto the
// hint is the zone of the endpoint. Kubernetes also assigns endpoints to other zones, if these have too few
// for their share of the processors. This controller does not, because nodes do not report their processors.
func hints(svc *corev1.Service, ep *corev1.Endpoint) *corev1.EndpointHints {
	distribution := svc.GetSpec().GetTrafficDistribution()
	if spec.TopologyAuto(svc) {
		distribution = corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_ZONE
	}
	if distribution == corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_UNSPECIFIED || !ep.GetConditions().GetReady() || ep.Zone == nil && ep.NodeName == nil {
		return nil
	}
	h := &corev1.EndpointHints{}
	if ep.Zone != nil {
		h.ForZones = []*corev1.ForZone{{Name: ep.GetZone()}}
	}
	if distribution == corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_PREFER_SAME_NODE && ep.NodeName != nil {
		h.ForNodes = []*corev1.ForNode{{Name: ep.GetNodeName()}}
	}
	if len(h.GetForZones()) == 0 && len(h.GetForNodes()) == 0 {
		return nil
	}
	return h
}
