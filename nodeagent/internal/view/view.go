package view

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/changes"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kinds are the kinds of objects in a view.
var Kinds = []string{"Service", "EndpointSlice", "Pod", "Node"}

// ChangedKinds reports the objects other than services that a batch of changes concerns.
type ChangedKinds struct {
	Pods bool // pods of this node
	Node bool // this node
	Edge bool // services with addresses that edges serve
}

// Batch holds the services that have changed since the previous batch, all at the same revision, so
// that a plan never mixes objects of different revisions.
type Batch struct {
	Revision uint64
	Services map[object.Name]Service
}

// Service is a service with its slices in no particular order. Object is nil if the service does
// not exist.
type Service struct {
	Object *corev1.Service
	Slices []*corev1.EndpointSlice
}

// View is the node's view of the registry. It is safe for concurrent use. The objects that it
// returns are shared and must not be changed.
type View struct {
	node string

	mu       sync.RWMutex
	complete bool                     // from the registry, not only from the file
	revision uint64                   // the view includes all changes up to this revision
	pending  map[object.Name]struct{} // services changed since the last batch
	contents
	nodeNames map[string]*string // the shared copies
}

// contents are the objects of a view.
type contents struct {
	services map[object.Name]*corev1.Service
	slices   map[object.Name][]*corev1.EndpointSlice
	pods     map[object.Key]*corev1.Pod
	self     *corev1.Node
}

func newContents() contents {
	return contents{
		services: map[object.Name]*corev1.Service{},
		slices:   map[object.Name][]*corev1.EndpointSlice{},
		pods:     map[object.Key]*corev1.Pod{},
	}
}

// Accepts reports whether the view stores an object: a service, a slice, a pod of this node or the node itself.
// The result depends on the object and the node only, so a follower may call Accepts before it stores the
// object.
func (v *View) Accepts(o object.Object) bool {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.GetSpec().GetNodeName() == v.node
	case *corev1.Node:
		return o.GetMetadata().GetName() == v.node
	}
	return true
}

// New returns an empty view for the named node.
func New(node string) *View {
	return &View{node: node, contents: newContents(), pending: map[object.Name]struct{}{}, nodeNames: map[string]*string{}}
}

// Apply applies changes up to a revision. The first batch must be a complete snapshot. It replaces
// the objects that were loaded from disk, and only from then on does a missing object count as
// deleted.
func (v *View) Apply(batch []changes.Change, revision uint64) ChangedKinds {
	v.mu.Lock()
	defer v.mu.Unlock()
	var changed ChangedKinds
	if !v.complete {
		v.markAll()
		changed.Pods, changed.Node, changed.Edge = true, true, true
		v.contents, v.complete = newContents(), true
	}
	for _, c := range batch {
		if c.Old != nil {
			v.remove(c.Old, &changed)
		}
		if c.New != nil {
			v.put(c.New, &changed)
		}
	}
	v.revision = revision
	return changed
}

// markAll marks all services as changed.
func (v *View) markAll() {
	for name := range v.services {
		v.pending[name] = struct{}{}
	}
}

// NextBatch returns the services that have changed since it was last called, or every service if
// all is set.
func (v *View) NextBatch(all bool) Batch {
	v.mu.Lock()
	defer v.mu.Unlock()
	if all {
		v.markAll()
	}
	b := Batch{Revision: v.revision, Services: make(map[object.Name]Service, len(v.pending))}
	for name := range v.pending {
		b.Services[name] = v.service(name)
	}
	v.pending = map[object.Name]struct{}{}
	return b
}

// IsPending reports whether the next batch has the service.
func (v *View) IsPending(name object.Name) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, waits := v.pending[name]
	return waits
}

// HasPending reports whether the next batch has any service.
func (v *View) HasPending() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.pending) > 0
}

// PendingServices returns the sorted names of the services in the next batch.
func (v *View) PendingServices() []object.Name {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.pending), object.Name.Compare)
}

func (v *View) put(o object.Object, t *ChangedKinds) {
	if !v.Accepts(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		name := object.NameOf(o)
		v.services[name] = o
		v.pending[name] = struct{}{}
		t.Edge = t.Edge || len(spec.EdgeAddresses(o)) > 0
	case *corev1.EndpointSlice:
		name := object.ServiceOf(o)
		if i := v.find(name, o); i >= 0 {
			v.slices[name][i] = o
		} else {
			v.slices[name] = append(v.slices[name], o)
		}
		v.pending[name] = struct{}{}
	case *corev1.Pod:
		v.pods[object.KeyOf(o)] = o
		t.Pods = true
	case *corev1.Node:
		v.self, t.Node = o, true
	}
}

func (v *View) remove(o object.Object, t *ChangedKinds) {
	if !v.Accepts(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		name := object.NameOf(o)
		delete(v.services, name)
		v.pending[name] = struct{}{}
		t.Edge = t.Edge || len(spec.EdgeAddresses(o)) > 0
	case *corev1.EndpointSlice:
		name := object.ServiceOf(o)
		if i := v.find(name, o); i >= 0 {
			v.slices[name] = slices.Delete(v.slices[name], i, i+1)
		}
		if len(v.slices[name]) == 0 {
			delete(v.slices, name)
		}
		v.pending[name] = struct{}{}
	case *corev1.Pod:
		delete(v.pods, object.KeyOf(o))
		t.Pods = true
	case *corev1.Node:
		v.self, t.Node = nil, true
	}
}

// find returns the index of a service's slice with the same name, or a negative number. It searches
// linearly because a service has few slices, and a map would take more memory than they do.
func (v *View) find(name object.Name, s *corev1.EndpointSlice) int {
	return slices.IndexFunc(v.slices[name], func(o *corev1.EndpointSlice) bool {
		return o.GetMetadata().GetName() == s.GetMetadata().GetName()
	})
}

// Revision returns the revision of the view, or 0 if it is empty.
func (v *View) Revision() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// Service returns a service, or nil if it does not exist, and its slices in no particular order.
func (v *View) Service(name object.Name) (*corev1.Service, []*corev1.EndpointSlice) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.service(name)
	return s.Object, s.Slices
}

// service returns a service. The caller holds the lock and may keep the result.
func (v *View) service(name object.Name) Service {
	svc := v.services[name]
	if svc == nil {
		return Service{}
	}
	return Service{Object: svc, Slices: slices.Clone(v.slices[name])}
}

// ServiceNames returns the sorted names of all services.
func (v *View) ServiceNames() []object.Name {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.services), object.Name.Compare)
}

// EdgeAddresses returns the load-balancer addresses that edges serve. live is false if the view is not
// from the registry yet.
func (v *View) EdgeAddresses() (all map[netip.Addr]bool, live bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all = map[netip.Addr]bool{}
	for _, svc := range v.services {
		for _, addr := range spec.EdgeAddresses(svc) {
			all[addr] = true
		}
	}
	return all, v.complete
}

// Pods returns the pods of the node in no particular order.
func (v *View) Pods() []*corev1.Pod {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Values(v.pods))
}

// Self returns the node's own object, or nil if the registry has none.
func (v *View) Self() *corev1.Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.self
}
