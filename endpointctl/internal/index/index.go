package index

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/internal/packing"
)

// Kinds returns the kinds that the index follows.
func Kinds() []string { return []string{"Service", "Pod", "Node", "EndpointSlice", "Endpoints"} }

// pair is a label in a namespace.
type pair struct{ namespace, key, value string }

// Index is safe for concurrent use. Its objects are shared and must not be changed.
type Index struct {
	mu         sync.RWMutex // guards all fields but nodesRead
	services   map[object.Name]*corev1.Service
	bySelector map[pair]map[object.Name]bool // by one pair of each selector
	pods       map[object.Name]*corev1.Pod
	byLabel    map[pair]map[object.Name]*corev1.Pod
	byNode     map[string]map[object.Name]*corev1.Pod
	selected   map[object.Name][]*corev1.Pod // by service with a selector: its pods, ordered by name
	nodes      map[string]*corev1.Node
	nodeStates map[string]packing.Node                          // by node; copied before a change if a reader has the map
	nodesRead  atomic.Bool                                      // a reader has nodeStates
	slices     map[object.Name]map[string]*corev1.EndpointSlice // by service and name
	endpoints  map[object.Name]*corev1.Endpoints
	ownWrites  map[object.Name]map[object.Key]ownWrite // by service: writes that the stream has not passed yet
	revision   uint64                                  // of the stream
	guard      *guard.Guard
}

// New returns an empty index, which applies objects under a guard.
func New(g *guard.Guard) *Index {
	return &Index{
		guard:    g,
		services: map[object.Name]*corev1.Service{}, bySelector: map[pair]map[object.Name]bool{},
		pods: map[object.Name]*corev1.Pod{}, byLabel: map[pair]map[object.Name]*corev1.Pod{}, byNode: map[string]map[object.Name]*corev1.Pod{},
		selected: map[object.Name][]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, nodeStates: map[string]packing.Node{}, slices: map[object.Name]map[string]*corev1.EndpointSlice{},
		endpoints: map[object.Name]*corev1.Endpoints{}, ownWrites: map[object.Name]map[object.Key]ownWrite{},
	}
}

// Affected holds the number of changes that affect each service.
type Affected map[object.Name]int

// Apply applies the changes up to a revision, and returns the services that they affect.
func (x *Index) Apply(batch []changes.Change, revision uint64) Affected {
	x.mu.Lock()
	defer x.mu.Unlock()
	if revision < x.revision {
		clear(x.ownWrites) // the log was set back, so the recorded writes may be lost
	}
	x.revision = revision
	affected := Affected{}
	changes.Each(x.guard, batch, func(c *changes.Change) {
		key := object.Name{Namespace: c.Key.Namespace, Name: c.Key.Name}
		switch c.Kind {
		case "Service":
			x.putService(key, as[*corev1.Service](c.New))
			affected[key]++
		case "Pod":
			x.putPod(key, as[*corev1.Pod](c.New), affected)
		case "Node":
			x.putNode(c.Key.Name, as[*corev1.Node](c.New), affected)
		case "EndpointSlice":
			x.applySlice(c, affected)
		case "Endpoints":
			x.applyEndpoints(key, c, affected)
		}
	})
	x.dropPassed()
	return affected
}

// as returns the object as type T, and nil if it is nil.
func as[T object.Object](o object.Object) T {
	typed, _ := o.(T)
	return typed
}

func (x *Index) putService(key object.Name, svc *corev1.Service) {
	if old := x.services[key]; old != nil {
		if p, ok := selectorPair(old); ok {
			remove(x.bySelector, p, key)
		}
		delete(x.services, key)
		delete(x.selected, key)
	}
	if svc == nil {
		return
	}
	x.services[key] = svc
	if p, ok := selectorPair(svc); ok {
		put(x.bySelector, p, key, true)
		x.selected[key] = x.findPods(svc)
	}
}

// selectorPair returns the pair under which a service is indexed. Any pair of the selector would do
// if it is always the same one.
func selectorPair(svc *corev1.Service) (pair, bool) {
	selector := svc.GetSpec().GetSelector()
	if len(selector) == 0 {
		return pair{}, false
	}
	key := slices.Min(slices.Collect(maps.Keys(selector)))
	return pair{svc.GetMetadata().GetNamespace(), key, selector[key]}, true
}

func (x *Index) putPod(key object.Name, pod *corev1.Pod, affected Affected) {
	if old := x.pods[key]; old != nil {
		x.removePod(key, old)
		for service := range x.servicesOf(old) {
			x.selected[service] = withoutPod(x.selected[service], old)
			if pod == nil || !spec.MatchEquality(x.services[service].GetSpec().GetSelector(), pod.GetMetadata().GetLabels()) {
				affected[service]++ // otherwise it is counted below
			}
		}
	}
	if pod == nil {
		return
	}
	x.pods[key] = pod
	for k, v := range pod.GetMetadata().GetLabels() {
		put(x.byLabel, pair{key.Namespace, k, v}, key, pod)
	}
	put(x.byNode, pod.GetSpec().GetNodeName(), key, pod)
	for service := range x.servicesOf(pod) {
		x.selected[service] = withPod(x.selected[service], pod)
		affected[service]++
	}
}

func (x *Index) removePod(key object.Name, pod *corev1.Pod) {
	for k, v := range pod.GetMetadata().GetLabels() {
		remove(x.byLabel, pair{key.Namespace, k, v}, key)
	}
	remove(x.byNode, pod.GetSpec().GetNodeName(), key)
	delete(x.pods, key)
}

// servicesOf yields the services that select a pod, each once. A service is indexed by one pair, so
// only one label of the pod finds it.
func (x *Index) servicesOf(pod *corev1.Pod) iter.Seq[object.Name] {
	return func(yield func(object.Name) bool) {
		labels := pod.GetMetadata().GetLabels()
		for k, v := range labels {
			for key := range x.bySelector[pair{pod.GetMetadata().GetNamespace(), k, v}] {
				if spec.MatchEquality(x.services[key].GetSpec().GetSelector(), labels) && !yield(key) {
					return
				}
			}
		}
	}
}

// putNode adds the services of the node's pods to affected if a property of the node that affects
// endpoints has changed.
func (x *Index) putNode(name string, node *corev1.Node, affected Affected) {
	before, known := x.nodeStates[name]
	if node == nil {
		delete(x.nodes, name)
	} else {
		x.nodes[name] = node
	}
	if known && node != nil && before == packing.NodeOf(node) {
		return
	}
	x.putNodeState(name, node)
	for _, pod := range x.byNode[name] {
		for service := range x.servicesOf(pod) {
			affected[service]++
		}
	}
}

// putNodeState changes nodeStates, or a copy of it if a reader has the map.
func (x *Index) putNodeState(name string, node *corev1.Node) {
	if x.nodesRead.Swap(false) {
		x.nodeStates = maps.Clone(x.nodeStates)
	}
	if node == nil {
		delete(x.nodeStates, name)
	} else {
		x.nodeStates[name] = packing.NodeOf(node)
	}
}

func put[K comparable, V any](m map[K]map[object.Name]V, at K, key object.Name, v V) {
	if m[at] == nil {
		m[at] = map[object.Name]V{}
	}
	m[at][key] = v
}

func remove[K comparable, V any](m map[K]map[object.Name]V, at K, key object.Name) {
	delete(m[at], key)
	if len(m[at]) == 0 {
		delete(m, at)
	}
}
