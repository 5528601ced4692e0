package view

import (
	"sync"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Kinds returns the kinds that the daemon follows.
func Kinds() []string { return []string{"Pod", "Service"} }

// Keep returns a function that reports whether the daemon needs an object: a service, or a pod of the
// registrar owner, which is the path of the registrar's identity.
func Keep(owner string) func(object.Object) bool {
	return func(o object.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return !ok || OwnedBy(pod, owner)
	}
}

// OwnedBy reports whether a pod belongs to the registrar owner.
func OwnedBy(pod *corev1.Pod, owner string) bool {
	return pod.GetMetadata().GetAnnotations()[object.AnnotationWorkload] == owner
}

// Trim removes the parts of a service that the daemon does not need.
func Trim(o object.Object) {
	svc, ok := o.(*corev1.Service)
	if !ok {
		return
	}
	meta, was := svc.GetMetadata(), svc.GetSpec()
	svc.Metadata = &corev1.ObjectMeta{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion(),
	}
	svc.Spec = &corev1.ServiceSpec{Selector: was.GetSelector(), Ports: was.GetPorts(), Type: was.GetType()}
	svc.Status = nil
}

// View is a view of the registry. Its methods are safe for concurrent use.
type View struct {
	guard *guard.Guard

	mu       sync.Mutex
	pods     map[object.Name]*corev1.Pod     // guarded by mu
	services map[object.Name]*corev1.Service // guarded by mu
	revision uint64                          // guarded by mu
	synced   bool                            // guarded by mu: Apply was called
}

// New returns an empty view, which applies objects under a guard.
func New(g *guard.Guard) *View {
	return &View{guard: g, pods: map[object.Name]*corev1.Pod{}, services: map[object.Name]*corev1.Service{}}
}

// Apply applies changes of the registry, and returns the names of the pods and services that changed.
func (v *View) Apply(batch []changes.Change, revision uint64) (pods, services []object.Name) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.revision, v.synced = revision, true
	changes.Each(v.guard, batch, func(c *changes.Change) {
		switch c.Kind {
		case "Pod":
			pods = append(pods, apply(v.pods, c))
		case "Service":
			services = append(services, apply(v.services, c))
		}
	})
	return pods, services
}

func apply[O object.Object](all map[object.Name]O, c *changes.Change) object.Name {
	name := object.Name{Namespace: c.Key.Namespace, Name: c.Key.Name}
	if updated, ok := c.New.(O); ok {
		all[name] = updated
	} else {
		delete(all, name)
	}
	return name
}

// Pod returns a pod of the registrar, or nil. The caller does not change it.
func (v *View) Pod(name object.Name) *corev1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pods[name]
}

// Pods returns the names of all pods of the registrar.
func (v *View) Pods() []object.Name {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := make([]object.Name, 0, len(v.pods))
	for name := range v.pods {
		names = append(names, name)
	}
	return names
}

// Service returns a service, or nil. The caller does not change it.
func (v *View) Service(name object.Name) *corev1.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.services[name]
}

// Revision returns the revision of the registry up to which changes were applied. It returns false before the
// first Apply.
func (v *View) Revision() (uint64, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.revision, v.synced
}
