package verifier

import (
	"sync"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Kinds of objects that the verifier follows: kinds with allocated values, nodes, because their addresses
// must not be in a pool, and Leases of reserves.
const (
	kindService = "Service"
	kindPod     = "Pod"
	kindNode    = "Node"
	kindLease   = "Lease"
)

// Kinds returns the kinds that the verifier follows.
func Kinds() []string { return []string{kindService, kindPod, kindNode, kindLease} }

// Keeps reports whether the verifier needs an object of the kinds that it follows.
func Keeps(o object.Object) bool {
	lease, ok := o.(*corev1.Lease)
	return !ok || spec.IsReserveLease(lease)
}

// position is a place in the registry's log. The zero value is before the first snapshot.
type position struct {
	epoch    string
	revision uint64
}

// view holds the registry's objects by UID.
type view struct {
	guard *guard.Guard

	mu      sync.Mutex
	byUID   map[string]object.Object   // guarded by mu
	changed map[string]*corev1.Service // guarded by mu: services that changed
	at      position                   // guarded by mu: everything up to here was applied
	filled  bool                       // guarded by mu: a snapshot was applied
}

func newView(g *guard.Guard) *view {
	return &view{guard: g, byUID: map[string]object.Object{}, changed: map[string]*corev1.Service{}}
}

// position returns the place in the log up to which everything was applied, and whether the view has
// had a snapshot.
func (w *view) position() (position, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at, w.filled
}

// apply applies changes up to a place in the log, and reports whether services have changed. It reads the values of
// each object first, as the comparisons do, which go through all objects at once. So an object with values that cannot
// be read never enters the view. Its former version stays, and keeps its values allocated.
func (w *view) apply(batch []changes.Change, at position) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.filled = at, true
	changes.Each(w.guard, batch, func(c *changes.Change) {
		if c.New != nil {
			readValues(c.New)
		}
		if c.Old != nil {
			uid := c.Old.GetMetadata().GetUid()
			delete(w.byUID, uid)
			delete(w.changed, uid)
		}
		if c.New == nil {
			return
		}
		uid := c.New.GetMetadata().GetUid()
		w.byUID[uid] = c.New
		if svc, ok := c.New.(*corev1.Service); ok {
			w.changed[uid] = svc
		}
	})
	return len(w.changed) > 0
}

// readValues reads all that the comparisons read of an object.
func readValues(o object.Object) {
	for _, value := range valuesOf(o) {
		_, _ = parse(value)
	}
	if svc, ok := o.(*corev1.Service); ok {
		newSharing([]*corev1.Service{svc})
	}
}

func (w *view) get(uid string) object.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byUID[uid]
}

// nextChanged returns the services that changed since the last call.
func (w *view) nextChanged() []*corev1.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := make([]*corev1.Service, 0, len(w.changed))
	for _, svc := range w.changed {
		taken = append(taken, svc)
	}
	clear(w.changed)
	return taken
}

func (w *view) services() []*corev1.Service { return objectsOf[*corev1.Service](w) }

func (w *view) nodes() []*corev1.Node { return objectsOf[*corev1.Node](w) }

// all returns all objects, in any order.
func (w *view) all() []object.Object { return objectsOf[object.Object](w) }

// reserveLeases returns the names of the Leases of reserves.
func (w *view) reserveLeases() []string {
	var names []string
	for _, lease := range objectsOf[*corev1.Lease](w) {
		if spec.IsReserveLease(lease) {
			names = append(names, lease.GetMetadata().GetName())
		}
	}
	return names
}

// objectsOf returns the objects of one kind, in any order.
func objectsOf[O object.Object](w *view) []O {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []O
	for _, o := range w.byUID {
		if one, ok := o.(O); ok {
			all = append(all, one)
		}
	}
	return all
}
