package view

import (
	"maps"
	"slices"
	"sync"

	corev1 "portolan.dev/proto/portolan/core/v1"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// Kinds are the kinds that a view is made of.
var Kinds = []string{"Service", "EndpointSlice", "Pod", "Node"}

// ServiceLabel is the label of a slice that names its service.
const ServiceLabel = "kubernetes.io/service-name"

// Touched says what changes concern besides services.
type Touched struct {
	Pods bool // of this node
	Node bool // this node
}

// Batch is the services that have changed since the batch before, all as of one
// revision. A plan that is made from a batch never meets a service that is newer
// than the rest of it.
type Batch struct {
	Revision uint64
	Services map[plan.ServiceName]Service
}

// Service is a service with its slices, which are in no particular order. The
// object is nil if the service does not exist.
type Service struct {
	Object *corev1.Service
	Slices []*corev1.EndpointSlice
}

// View is safe for concurrent use. Objects that it returns are shared: they must
// not be changed.
type View struct {
	node string

	mu       sync.RWMutex
	complete bool                          // the registry's, not only the disk's
	revision uint64                        // everything up to here is in it
	changed  map[plan.ServiceName]struct{} // services, since the last batch
	contents
	nodeNames map[string]*string // each once
}

// contents are the objects.
type contents struct {
	services map[plan.ServiceName]*corev1.Service
	slices   map[plan.ServiceName][]*corev1.EndpointSlice
	pods     map[object.Key]*corev1.Pod
	self     *corev1.Node
}

func newContents() contents {
	return contents{
		services: map[plan.ServiceName]*corev1.Service{},
		slices:   map[plan.ServiceName][]*corev1.EndpointSlice{},
		pods:     map[object.Key]*corev1.Pod{},
	}
}

// Keeps tells whether an object has a place in the view: services and slices all
// do, pods and nodes only where they are this node's. What it says of an object
// depends on nothing else, so that a follower may ask before it keeps the object.
func (v *View) Keeps(o object.Object) bool {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.GetSpec().GetNodeName() == v.node
	case *corev1.Node:
		return o.GetMetadata().GetName() == v.node
	}
	return true
}

// New returns the empty view of a node.
func New(node string) *View {
	return &View{node: node, contents: newContents(), changed: map[plan.ServiceName]struct{}{}, nodeNames: map[string]*string{}}
}

// Apply takes in changes up to a revision. The first batch has to be a complete
// snapshot: it replaces what was loaded from disk, and only from then on does
// something that is missing count as deleted.
func (v *View) Apply(batch []changes.Change, revision uint64) Touched {
	v.mu.Lock()
	defer v.mu.Unlock()
	var touched Touched
	if !v.complete {
		v.touchServices()
		touched.Pods, touched.Node = true, true
		v.contents, v.complete = newContents(), true
	}
	for _, c := range batch {
		if c.Old != nil {
			v.remove(c.Old, &touched)
		}
		if c.New != nil {
			v.put(c.New, &touched)
		}
	}
	v.revision = revision
	return touched
}

// touchServices marks all services as changed.
func (v *View) touchServices() {
	for name := range v.services {
		v.changed[name] = struct{}{}
	}
}

// Take returns what has changed since it was last called, or, if all is set,
// every service.
func (v *View) Take(all bool) Batch {
	v.mu.Lock()
	defer v.mu.Unlock()
	if all {
		v.touchServices()
	}
	b := Batch{Revision: v.revision, Services: make(map[plan.ServiceName]Service, len(v.changed))}
	for name := range v.changed {
		b.Services[name] = v.service(name)
	}
	v.changed = map[plan.ServiceName]struct{}{}
	return b
}

// Waits reports whether the next batch will have the service.
func (v *View) Waits(name plan.ServiceName) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, waits := v.changed[name]
	return waits
}

// Behind reports whether the next batch will have any service.
func (v *View) Behind() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.changed) > 0
}

// Changed returns the names of the services that the next batch will have, in
// order.
func (v *View) Changed() []plan.ServiceName {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.changed), plan.ServiceName.Compare)
}

func (v *View) put(o object.Object, t *Touched) {
	if !v.Keeps(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		name := nameOf(o.GetMetadata())
		v.services[name] = o
		v.changed[name] = struct{}{}
	case *corev1.EndpointSlice:
		name := serviceOf(o)
		if i := v.find(name, o); i >= 0 {
			v.slices[name][i] = o
		} else {
			v.slices[name] = append(v.slices[name], o)
		}
		v.changed[name] = struct{}{}
	case *corev1.Pod:
		v.pods[object.KeyOf(o)] = o
		t.Pods = true
	case *corev1.Node:
		v.self, t.Node = o, true
	}
}

func (v *View) remove(o object.Object, t *Touched) {
	if !v.Keeps(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		name := nameOf(o.GetMetadata())
		delete(v.services, name)
		v.changed[name] = struct{}{}
	case *corev1.EndpointSlice:
		name := serviceOf(o)
		if i := v.find(name, o); i >= 0 {
			v.slices[name] = slices.Delete(v.slices[name], i, i+1)
		}
		if len(v.slices[name]) == 0 {
			delete(v.slices, name)
		}
		v.changed[name] = struct{}{}
	case *corev1.Pod:
		delete(v.pods, object.KeyOf(o))
		t.Pods = true
	case *corev1.Node:
		v.self, t.Node = nil, true
	}
}

// find returns where a slice of a service is; negative: nowhere. A service has
// few, for which a map would take more memory than they do.
func (v *View) find(name plan.ServiceName, s *corev1.EndpointSlice) int {
	return slices.IndexFunc(v.slices[name], func(o *corev1.EndpointSlice) bool {
		return o.GetMetadata().GetName() == s.GetMetadata().GetName()
	})
}

func nameOf(m *corev1.ObjectMeta) plan.ServiceName {
	return plan.ServiceName{Namespace: m.GetNamespace(), Name: m.GetName()}
}

func serviceOf(s *corev1.EndpointSlice) plan.ServiceName {
	return plan.ServiceName{Namespace: s.GetMetadata().GetNamespace(), Name: s.GetMetadata().GetLabels()[ServiceLabel]}
}

// Revision returns the revision of the view; 0: empty.
func (v *View) Revision() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// Service returns a service, nil if there is none, and its slices in no
// particular order.
func (v *View) Service(name plan.ServiceName) (*corev1.Service, []*corev1.EndpointSlice) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.service(name)
	return s.Object, s.Slices
}

// service returns a service. The caller holds the lock, and may keep the result.
func (v *View) service(name plan.ServiceName) Service {
	svc := v.services[name]
	if svc == nil {
		return Service{}
	}
	return Service{Object: svc, Slices: slices.Clone(v.slices[name])}
}

// ServiceNames returns the names of all services, in order.
func (v *View) ServiceNames() []plan.ServiceName {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.SortedFunc(maps.Keys(v.services), plan.ServiceName.Compare)
}

// Pods returns the pods of the node in no particular order.
func (v *View) Pods() []*corev1.Pod {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Values(v.pods))
}

// Self returns the node; nil: the registry does not know it.
func (v *View) Self() *corev1.Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.self
}
