package index

import (
	"maps"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/packing"
)

// Service holds all objects that a sync of a service needs, as of one moment.
type Service struct {
	Service   *corev1.Service         // nil if there is none
	Pods      []*corev1.Pod           // pods that the service selects, ordered by name
	Nodes     map[string]packing.Node // all nodes; shared, and never changed
	Slices    []*corev1.EndpointSlice // made from its selector
	Mirrored  []*corev1.EndpointSlice // made from its Endpoints
	Endpoints *corev1.Endpoints       // nil if there is none
}

// FindNode returns the node with that name.
func (s *Service) FindNode(name string) (packing.Node, bool) {
	n, ok := s.Nodes[name]
	return n, ok
}

// Read returns the objects of a service.
func (x *Index) Read(key object.Name) Service {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := Service{Service: x.services[key], Pods: slices.Clone(x.selected[key]), Nodes: x.nodeStates, Endpoints: x.endpointsOf(key)}
	x.nodesRead.Store(true)
	for _, slice := range x.slicesOf(key) {
		switch slice.GetMetadata().GetLabels()[object.LabelManagedBy] {
		case object.ManagedByController:
			s.Slices = append(s.Slices, slice)
		case object.ManagedByMirroring:
			s.Mirrored = append(s.Mirrored, slice)
		}
	}
	return s
}

// slicesOf returns the slices of a service, including the controller's own writes.
func (x *Index) slicesOf(service object.Name) []*corev1.EndpointSlice {
	written := x.ownWrites[service]
	var all []*corev1.EndpointSlice
	for _, s := range x.slices[service] {
		if _, ok := written[object.KeyOf(s)]; !ok {
			all = append(all, s)
		}
	}
	for _, w := range written {
		if s, ok := w.object.(*corev1.EndpointSlice); ok {
			all = append(all, s)
		}
	}
	return all
}

// endpointsOf returns the Endpoints of a service, including the controller's own write, or nil if
// there is none.
func (x *Index) endpointsOf(service object.Name) *corev1.Endpoints {
	key := object.Key{Kind: "Endpoints", Namespace: service.Namespace, Name: service.Name}
	if w, ok := x.ownWrites[service][key]; ok {
		return as[*corev1.Endpoints](w.object)
	}
	return x.endpoints[service]
}

// ReadNamespace is Read with all pods of the namespace instead of the selected ones.
func (x *Index) ReadNamespace(key object.Name) Service {
	s := x.Read(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	s.Pods = nil
	for k, pod := range x.pods {
		if k.Namespace == key.Namespace {
			s.Pods = append(s.Pods, pod)
		}
	}
	slices.SortFunc(s.Pods, byName)
	return s
}

// Nodes returns all nodes, ordered by name.
func (x *Index) Nodes() []*corev1.Node {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.SortedFunc(maps.Values(x.nodes), func(a, b *corev1.Node) int {
		return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
	})
}

// Keys returns the keys of all services, of slices made by this controller, and of Endpoints, for which
// belongs returns true. It calls belongs for every key, which costs far less than a sync.
func (x *Index) Keys(belongs func(object.Name) bool) map[object.Name]bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := map[object.Name]bool{}
	add := func(key object.Name) {
		if belongs(key) {
			all[key] = true
		}
	}
	for key := range x.services {
		add(key)
	}
	for key, named := range x.slices {
		for _, s := range named {
			if isManaged(s) {
				add(key)
				break
			}
		}
	}
	for key := range x.endpoints {
		add(key)
	}
	for key := range x.ownWrites {
		add(key)
	}
	return all
}

// Count returns the numbers of services and pods.
func (x *Index) Count() (services, pods int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.services), len(x.pods)
}
