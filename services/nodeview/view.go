package nodeview

import (
	"maps"
	"slices"
	"sync"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Options are the settings of a view. Node and Keeps are required.
type Options struct {
	// Node is the name of the daemon's node. It owns the view's file.
	Node string
	// Keeps reports whether the view stores an object. The result must depend on the object only.
	Keeps func(object.Object) bool
	// Trim, if not nil, removes fields of an object that was read from the file, as the follower's Trim
	// has done with the objects of the registry.
	Trim func(object.Object)
	// Guard catches panics of the work for one object.
	Guard *guard.Guard
	// ConcernsAll, if not nil, reports whether a change of the node concerns every service. Either node
	// may be nil.
	ConcernsAll func(before, now *corev1.Node) bool
}

// Service is a service with its slices in no particular order. Object is nil if the view has no such
// service.
type Service struct {
	Object *corev1.Service
	Slices []*corev1.EndpointSlice
}

// Batch holds the objects that have changed since the previous batch, all at the same revision, so that
// a plan never mixes objects of different revisions.
type Batch[T object.Object] struct {
	Revision uint64
	Services map[object.Name]Service
	// Others are all objects of the further kind, or nil if none has changed.
	Others []T
	Self   *corev1.Node // nil: the registry has none
}

// Changed reports which objects other than services and slices were changed by Apply.
type Changed struct {
	Others bool // objects of the further kind
	Node   bool // the daemon's node
}

// View is a daemon's view of the registry, with T as the type of the further kind. It is safe for
// concurrent use. The objects that it returns are shared and must not be changed.
type View[T object.Object] struct {
	opts Options

	mu       sync.RWMutex
	complete bool                     // from the registry, not only from the file
	revision uint64                   // the view includes all changes up to this revision
	pending  map[object.Name]struct{} // services changed since the last batch
	changed  bool                     // objects of the further kind have changed since the last batch
	contents[T]
}

// contents are the objects of a view.
type contents[T object.Object] struct {
	services map[object.Name]*corev1.Service
	slices   map[object.Name][]*corev1.EndpointSlice // by service, which may be missing
	others   map[object.Key]T
	self     *corev1.Node
}

func newContents[T object.Object]() contents[T] {
	return contents[T]{
		services: map[object.Name]*corev1.Service{},
		slices:   map[object.Name][]*corev1.EndpointSlice{},
		others:   map[object.Key]T{},
	}
}

// New returns an empty view.
func New[T object.Object](o Options) *View[T] {
	return &View[T]{opts: o, contents: newContents[T](), pending: map[object.Name]struct{}{}}
}

// Apply applies changes up to a revision. The first batch must be a complete snapshot. It replaces the
// objects that were loaded from disk, and only from then on does a missing object count as deleted.
func (v *View[T]) Apply(batch []changes.Change, revision uint64) Changed {
	v.mu.Lock()
	defer v.mu.Unlock()
	var changed Changed
	if !v.complete {
		v.markAll()
		v.contents, v.complete = newContents[T](), true
		v.opts.Guard.Forget(stepLoad, func(guard.Object) bool { return true })
		changed = Changed{Others: true, Node: true}
	}
	before := v.self
	changes.Each(v.opts.Guard, batch, func(c *changes.Change) {
		if c.Old != nil {
			v.remove(c.Old, &changed)
		}
		if c.New != nil {
			v.put(c.New, &changed)
		}
	})
	if concernsAll := v.opts.ConcernsAll; concernsAll != nil && concernsAll(before, v.self) {
		v.markAll()
	}
	v.revision, v.changed = revision, v.changed || changed.Others
	return changed
}

// markAll marks all services as changed.
func (v *View[T]) markAll() {
	for name := range v.services {
		v.pending[name] = struct{}{}
	}
}

// markService marks the service of a changed slice, if it is in the view.
func (v *View[T]) markService(name object.Name) {
	if v.services[name] != nil {
		v.pending[name] = struct{}{}
	}
}

func (v *View[T]) put(o object.Object, changed *Changed) {
	if !v.opts.Keeps(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		v.services[object.NameOf(o)] = o
		v.markService(object.NameOf(o))
	case *corev1.EndpointSlice:
		name := object.ServiceOf(o)
		if i := v.find(name, o); i >= 0 {
			v.slices[name][i] = o
		} else {
			v.slices[name] = append(v.slices[name], o)
		}
		v.markService(name)
	case *corev1.Node:
		v.self, changed.Node = o, true
	case T:
		v.others[object.KeyOf(o)], changed.Others = o, true
	}
}

func (v *View[T]) remove(o object.Object, changed *Changed) {
	if !v.opts.Keeps(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		v.markService(object.NameOf(o))
		delete(v.services, object.NameOf(o))
	case *corev1.EndpointSlice:
		name := object.ServiceOf(o)
		if i := v.find(name, o); i >= 0 {
			v.slices[name] = slices.Delete(v.slices[name], i, i+1)
		}
		if len(v.slices[name]) == 0 {
			delete(v.slices, name)
		}
		v.markService(name)
	case *corev1.Node:
		v.self, changed.Node = nil, true
	case T:
		delete(v.others, object.KeyOf(o))
		changed.Others = true
	}
}

// find returns the index of a service's slice with the same name, or a negative number. It searches
// linearly because a service has few slices, and a map would take more memory than they do.
func (v *View[T]) find(name object.Name, s *corev1.EndpointSlice) int {
	return slices.IndexFunc(v.slices[name], func(o *corev1.EndpointSlice) bool {
		return o.GetMetadata().GetName() == s.GetMetadata().GetName()
	})
}

// NextBatch returns the objects that have changed since it was last called. If all is set, the batch has
// every service.
func (v *View[T]) NextBatch(all bool) Batch[T] {
	v.mu.Lock()
	defer v.mu.Unlock()
	if all {
		v.markAll()
	}
	b := Batch[T]{Revision: v.revision, Services: make(map[object.Name]Service, len(v.pending)), Self: v.self}
	for name := range v.pending {
		b.Services[name] = v.service(name)
	}
	if v.changed {
		b.Others = slices.AppendSeq(make([]T, 0, len(v.others)), maps.Values(v.others))
	}
	v.pending, v.changed = map[object.Name]struct{}{}, false
	return b
}

// IsPending reports whether the next batch has the service.
func (v *View[T]) IsPending(name object.Name) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, pending := v.pending[name]
	return pending
}

// HasPending reports whether the next batch has any service.
func (v *View[T]) HasPending() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.pending) > 0
}

// PendingServices returns the sorted names of the services in the next batch.
func (v *View[T]) PendingServices() []object.Name {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.pending), object.Name.Compare)
}

// Revision returns the revision of the view, or 0 if it is empty.
func (v *View[T]) Revision() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// Service returns a service, or nil if it does not exist, and its slices in no particular order.
func (v *View[T]) Service(name object.Name) (*corev1.Service, []*corev1.EndpointSlice) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.service(name)
	return s.Object, s.Slices
}

// service returns a service. The caller holds the lock and may keep the result.
func (v *View[T]) service(name object.Name) Service {
	svc := v.services[name]
	if svc == nil {
		return Service{}
	}
	return Service{Object: svc, Slices: slices.Clone(v.slices[name])}
}

// ServiceNames returns the sorted names of all services.
func (v *View[T]) ServiceNames() []object.Name {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.services), object.Name.Compare)
}

// Services returns all services in no particular order. live is false if the view is not from the
// registry yet.
func (v *View[T]) Services() (all []*corev1.Service, live bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Values(v.services)), v.complete
}

// Others returns the objects of the further kind in no particular order.
func (v *View[T]) Others() []T {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Values(v.others))
}

// Self returns the daemon's own node, or nil if the registry has none.
func (v *View[T]) Self() *corev1.Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.self
}
