package view

import (
	"maps"
	"slices"
	"sync"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kinds returns the kinds that an edge follows.
func Kinds() []string { return []string{"Service", "EndpointSlice", "Secret", "Node"} }

// Service is a service with its slices in no particular order. Object is nil if the service is not one
// of the class any more.
type Service struct {
	Object *corev1.Service
	Slices []*corev1.EndpointSlice
}

// Batch holds what has changed since the previous batch, all at the same revision.
type Batch struct {
	Services map[object.Name]Service
	// Secrets are all secrets, or nil if none has changed.
	Secrets map[object.Name]*corev1.Secret
	// Zone is the zone of the edge's node; empty: it has none, or is not known. If it is another one
	// than in the last batch, the batch has all services.
	Zone string
}

// View is an edge's view of the registry. It is safe for concurrent use. The objects that it returns
// are shared and must not be changed.
type View struct {
	node string

	mu       sync.Mutex
	complete bool                     // from the registry, not only from the file
	revision uint64                   // the view includes all changes up to this revision
	pending  map[object.Name]struct{} // services changed since the last batch
	secrets  bool                     // secrets have changed since the last batch
	zone     string                   // of the last batch
	contents
}

// contents are the objects of a view.
type contents struct {
	services map[object.Name]*corev1.Service
	slices   map[object.Name]map[string]*corev1.EndpointSlice // by service and name
	certs    map[object.Name]*corev1.Secret
	self     *corev1.Node
}

func newContents() contents {
	return contents{
		services: map[object.Name]*corev1.Service{}, slices: map[object.Name]map[string]*corev1.EndpointSlice{},
		certs: map[object.Name]*corev1.Secret{},
	}
}

// New returns an empty view for the edge of a node.
func New(node string) *View {
	return &View{node: node, contents: newContents(), pending: map[object.Name]struct{}{}}
}

// Keeps reports whether the view stores an object: services of the class, all slices, because a slice
// may come before its service, all secrets with certificates, and of the nodes its own.
func (v *View) Keeps(o object.Object) bool {
	switch o := o.(type) {
	case *corev1.Service:
		return spec.IsLoadBalancer(o) && o.GetSpec().GetLoadBalancerClass() == balancer.ClassEdge
	case *corev1.Secret:
		return o.GetType() == spec.SecretTypeTLS
	case *corev1.Node:
		return o.GetMetadata().GetName() == v.node
	}
	return true
}

// Apply applies changes up to a revision. The first batch must be a complete snapshot. It replaces the
// objects that were loaded from disk, and only from then on does a missing object count as deleted.
func (v *View) Apply(batch []changes.Change, revision uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.complete {
		v.markAll()
		v.contents, v.complete, v.secrets = newContents(), true, true
	}
	for _, c := range batch {
		if c.Old != nil {
			v.remove(c.Old)
		}
		if c.New != nil {
			v.put(c.New)
		}
	}
	v.revision = revision
}

// markAll marks all services as changed.
func (v *View) markAll() {
	for name := range v.services {
		v.pending[name] = struct{}{}
	}
}

func (v *View) put(o object.Object) {
	if !v.Keeps(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.Service:
		v.services[object.NameOf(o)] = o
		v.pending[object.NameOf(o)] = struct{}{}
	case *corev1.EndpointSlice:
		service := object.ServiceOf(o)
		if v.slices[service] == nil {
			v.slices[service] = map[string]*corev1.EndpointSlice{}
		}
		v.slices[service][o.GetMetadata().GetName()] = o
		v.touch(service)
	case *corev1.Secret:
		v.certs[object.NameOf(o)], v.secrets = o, true
	case *corev1.Node:
		v.self = o
	}
}

func (v *View) remove(o object.Object) {
	switch o := o.(type) {
	case *corev1.Service:
		if name := object.NameOf(o); v.services[name] != nil {
			delete(v.services, name)
			v.pending[name] = struct{}{}
		}
	case *corev1.EndpointSlice:
		service := object.ServiceOf(o)
		delete(v.slices[service], o.GetMetadata().GetName())
		if len(v.slices[service]) == 0 {
			delete(v.slices, service)
		}
		v.touch(service)
	case *corev1.Secret:
		if name := object.NameOf(o); v.certs[name] != nil {
			delete(v.certs, name)
			v.secrets = true
		}
	case *corev1.Node:
		if o.GetMetadata().GetName() == v.node {
			v.self = nil
		}
	}
}

// touch marks a service as changed if it is one of the class.
func (v *View) touch(name object.Name) {
	if v.services[name] != nil {
		v.pending[name] = struct{}{}
	}
}

// NextBatch returns what has changed since it was last called.
func (v *View) NextBatch() Batch {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := Batch{Zone: v.ownZone()}
	if b.Zone != v.zone {
		v.zone = b.Zone
		v.markAll()
	}
	b.Services = make(map[object.Name]Service, len(v.pending))
	for name := range v.pending {
		b.Services[name] = v.service(name)
	}
	v.pending = map[object.Name]struct{}{}
	if v.secrets {
		b.Secrets, v.secrets = maps.Clone(v.certs), false
	}
	return b
}

// service returns a service. The caller holds the lock.
func (v *View) service(name object.Name) Service {
	svc := v.services[name]
	if svc == nil {
		return Service{}
	}
	return Service{Object: svc, Slices: slices.Collect(maps.Values(v.slices[name]))}
}

// Zone returns the zone of the edge's node; empty: it has none, or is not known.
func (v *View) Zone() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ownZone()
}

func (v *View) ownZone() string { return v.self.GetMetadata().GetLabels()[object.LabelZone] }

// Revision returns the revision of the view, or 0 if it is empty.
func (v *View) Revision() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision
}
