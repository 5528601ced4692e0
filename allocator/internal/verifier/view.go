package verifier

import (
	"sync"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

// Kinds of objects that have allocated values.
const (
	kindService = "Service"
	kindPod     = "Pod"
)

// Kinds returns the kinds that the verifier follows.
func Kinds() []string { return []string{kindService, kindPod} }

// view holds the registry's objects by UID.
type view struct {
	mu      sync.Mutex
	byUID   map[string]object.Object   // guarded by mu
	changed map[string]*corev1.Service // guarded by mu: services that changed
}

func newView() *view {
	return &view{byUID: map[string]object.Object{}, changed: map[string]*corev1.Service{}}
}

// apply applies changes and reports whether a service changed.
func (w *view) apply(batch []changes.Change) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range batch {
		if c.Old != nil {
			uid := c.Old.GetMetadata().GetUid()
			delete(w.byUID, uid)
			delete(w.changed, uid)
		}
		if c.New == nil {
			continue
		}
		uid := c.New.GetMetadata().GetUid()
		w.byUID[uid] = c.New
		if svc, ok := c.New.(*corev1.Service); ok {
			w.changed[uid] = svc
		}
	}
	return len(w.changed) > 0
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

func (w *view) services() []*corev1.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*corev1.Service
	for _, o := range w.byUID {
		if svc, ok := o.(*corev1.Service); ok {
			all = append(all, svc)
		}
	}
	return all
}
