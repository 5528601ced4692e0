package packing

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// EndpointsFromPods returns the wanted Endpoints of a service with a selector. The verdicts are
// ordered by the names of their pods. existing is the stored Endpoints, or nil. If it needs no change,
// EndpointsFromPods returns existing itself.
func EndpointsFromPods(svc *corev1.Service, verdicts []*PodVerdict, trigger string, existing *corev1.Endpoints) *corev1.Endpoints {
	meta, labels := svc.GetMetadata(), endpointsLabels(svc)
	want := &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: meta.GetName(), Namespace: meta.GetNamespace()}}
	if existing != nil {
		want.Metadata = existing.GetMetadata().CloneVT()
	}
	want.Metadata.Labels = labels
	subsets := endpointsSubsets(svc, verdicts)
	truncated := truncate(subsets, MaxEndpoints)
	truncated = shortenToSize(subsets, maxEndpointsBytes-identityBytes-want.SizeVT()) || truncated
	subsets = slices.DeleteFunc(subsets, isEmptySubset)
	if existing != nil && sameSubsets(existing.GetSubsets(), subsets) && maps.Equal(existing.GetMetadata().GetLabels(), labels) &&
		(existing.GetMetadata().GetAnnotations()[AnnotationOverCapacity] == overCapacity) == truncated {
		return existing
	}
	want.Subsets = subsets
	annotate(want.Metadata, AnnotationOverCapacity, overCapacity, truncated)
	annotate(want.Metadata, AnnotationTrigger, trigger, trigger != "")
	return want
}

// endpointsLabels returns the labels of the Endpoints of a service.
func endpointsLabels(svc *corev1.Service) map[string]string {
	labels := maps.Clone(svc.GetMetadata().GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, object.LabelHeadless)
	if object.IsHeadless(svc) {
		labels[object.LabelHeadless] = ""
	}
	labels[object.LabelEndpointsManagedBy] = object.ManagedByEndpoints
	return labels
}

func isEmptySubset(s *corev1.EndpointSubset) bool {
	return len(s.GetAddresses())+len(s.GetNotReadyAddresses()) == 0
}

// IsManaged reports whether this controller made an Endpoints object.
func IsManaged(e *corev1.Endpoints) bool {
	return e.GetMetadata().GetLabels()[object.LabelEndpointsManagedBy] == object.ManagedByEndpoints
}

// annotate sets or removes an annotation.
func annotate(meta *corev1.ObjectMeta, key, value string, wanted bool) {
	if !wanted {
		delete(meta.Annotations, key)
		return
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[key] = value
}

// endpointsSubsets puts pods with the same ports into one subset, in a stable order.
func endpointsSubsets(svc *corev1.Service, verdicts []*PodVerdict) []*corev1.EndpointSubset {
	family := families(svc)[0]
	byPorts := map[string]*corev1.EndpointSubset{}
	var key string
	var subset *corev1.EndpointSubset // of key
	for _, v := range verdicts {
		leaving := v.Pod.GetMetadata().GetDeletionTimestamp() != nil && !svc.GetSpec().GetPublishNotReadyAddresses()
		if !v.Selected || leaving || v.lacksAllPorts(svc) {
			continue
		}
		e := v.of(family)
		if e == nil {
			continue
		}
		if subset == nil || v.ports.key != key {
			key = v.ports.key
			subset = byPorts[key]
		}
		if subset == nil {
			subset = &corev1.EndpointSubset{Ports: endpointsPorts(v.ports.list)}
			byPorts[key] = subset
		}
		if v.Ready {
			subset.Addresses = append(subset.Addresses, e.legacyAddress())
		} else {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, e.legacyAddress())
		}
	}
	var subsets []*corev1.EndpointSubset
	for _, key := range sortedKeys(byPorts) {
		s := byPorts[key]
		slices.SortFunc(s.Addresses, compareAddresses)
		slices.SortFunc(s.NotReadyAddresses, compareAddresses)
		subsets = append(subsets, s)
	}
	return subsets
}

// legacyAddress returns the address of an Endpoints for an endpoint.
func (e *endpointOfPod) legacyAddress() *corev1.EndpointAddress {
	ep := e.endpoint
	return &corev1.EndpointAddress{Ip: ep.GetAddresses()[0], Hostname: ep.GetHostname(), NodeName: ep.NodeName, TargetRef: ep.GetTargetRef()}
}

func compareAddresses(a, b *corev1.EndpointAddress) int {
	return cmp.Or(strings.Compare(a.GetIp(), b.GetIp()), strings.Compare(a.GetTargetRef().GetName(), b.GetTargetRef().GetName()))
}

func endpointsPorts(ports []*corev1.EndpointPort) []*corev1.EndpointSubsetPort {
	var all []*corev1.EndpointSubsetPort
	for _, p := range ports {
		all = append(all, &corev1.EndpointSubsetPort{Name: p.GetName(), Port: p.GetPort(), Protocol: p.GetProtocol(), AppProtocol: p.AppProtocol})
	}
	return all
}

// truncate keeps at most limit addresses, ready ones first, from each subset in proportion to its
// size. It reports whether addresses were left out.
func truncate(subsets []*corev1.EndpointSubset, limit int) bool {
	ready, all := 0, 0
	for _, s := range subsets {
		ready += len(s.GetAddresses())
		all += len(s.GetAddresses()) + len(s.GetNotReadyAddresses())
	}
	if all <= limit {
		return false
	}
	shortenLists(subsets, limit, func(s *corev1.EndpointSubset) *[]*corev1.EndpointAddress { return &s.Addresses })
	shortenLists(subsets, max(0, limit-ready), func(s *corev1.EndpointSubset) *[]*corev1.EndpointAddress { return &s.NotReadyAddresses })
	return true
}

// shortenLists cuts the lists to limit addresses in total, in proportion to their lengths. The
// remainder of the rounding goes to the first lists that have more.
func shortenLists(subsets []*corev1.EndpointSubset, limit int, list func(*corev1.EndpointSubset) *[]*corev1.EndpointAddress) {
	total := 0
	for _, s := range subsets {
		total += len(*list(s))
	}
	if total <= limit {
		return
	}
	keep := make([]int, len(subsets))
	left := limit
	for i, s := range subsets {
		keep[i] = len(*list(s)) * limit / total
		left -= keep[i]
	}
	for i, s := range subsets {
		if left > 0 && keep[i] < len(*list(s)) {
			keep[i]++
			left--
		}
		*list(s) = (*list(s))[:keep[i]]
	}
}

func sameSubsets(a, b []*corev1.EndpointSubset) bool {
	return slices.EqualFunc(a, b, func(x, y *corev1.EndpointSubset) bool { return x.EqualVT(y) })
}
