package events

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Reporter writes the events of a controller, and waits for the registry. It leaves out an event that
// equals the last one with the same key, such as the name of a service.
type Reporter[K comparable] struct {
	component string
	client    registryv1.EventServiceClient
	log       *slog.Logger

	mu   sync.Mutex
	last map[K]string // guarded by mu: reason and message
}

// NewReporter returns a reporter of a component, such as endpointctl, that has reported nothing.
func NewReporter[K comparable](component string, client registryv1.EventServiceClient, log *slog.Logger) *Reporter[K] {
	return &Reporter[K]{component: component, client: client, log: log, last: map[K]string{}}
}

// Report records an event about an object, unless it equals the last one with the same key. An event
// that could not be written is not the last one.
func (r *Reporter[K]) Report(ctx context.Context, key K, about object.Object, typ corev1.EventType, reason, message string) {
	event := New(r.component, about, typ, reason, message)
	now := reason + " " + event.GetMessage()
	r.mu.Lock()
	known := r.last[key] == now
	r.last[key] = now
	r.mu.Unlock()
	if known {
		return
	}
	if _, err := r.client.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: event}); err != nil {
		r.log.Warn("event not recorded", "reason", reason, "about", object.KeyOf(about).String(), "err", err)
		r.Forget(key)
	}
}

// Forget makes the next event with the key different from the last one.
func (r *Reporter[K]) Forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}

// ForgetAll forgets the keys for which match returns true.
func (r *Reporter[K]) ForgetAll(match func(K) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(key K, _ string) bool { return match(key) })
}

// New returns an event of a component about an object. It is in the namespace of the object, or in the
// default one if the object's kind has no namespaces.
func New(component string, about object.Object, typ corev1.EventType, reason, message string) *corev1.Event {
	return newEvent(component, reference(about), cmp.Or(about.GetMetadata().GetNamespace(), object.DefaultNamespace), typ, reason, message)
}

func newEvent(component string, about *corev1.ObjectReference, namespace string, typ corev1.EventType, reason, message string) *corev1.Event {
	return &corev1.Event{
		Metadata:  &corev1.ObjectMeta{GenerateName: about.GetName() + ".", Namespace: namespace},
		Regarding: about,
		Reason:    reason, Message: spec.ShortenMessage(message), Type: typ, ReportingComponent: component,
	}
}

func reference(o object.Object) *corev1.ObjectReference {
	meta := o.GetMetadata()
	return &corev1.ObjectReference{Kind: object.KindOf(o), ApiVersion: "v1", Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid()}
}
