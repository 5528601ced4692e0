package events

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

const (
	queueSize    = 256              // events that may wait; further ones are dropped
	writeTimeout = 10 * time.Second // for one event
	retryMin     = 200 * time.Millisecond
	retryMax     = 10 * time.Second
)

// Recorder writes events in the background. While the registry is unavailable, events wait in the
// queue, so that findings of a daemon that starts alone are reported later. Events that do not fit
// are lost, but the daemon's status still has everything.
type Recorder struct {
	component string
	node      string
	client    registryv1.EventServiceClient
	log       *slog.Logger
	queue     chan *corev1.Event
}

// NewRecorder returns a recorder of a component, such as nodeagent, on a node. It writes nothing before
// Run.
func NewRecorder(component, node string, client registryv1.EventServiceClient, log *slog.Logger) *Recorder {
	return &Recorder{component: component, node: node, client: client, log: log, queue: make(chan *corev1.Event, queueSize)}
}

// WarnService writes an event about a service that needs attention.
func (r *Recorder) WarnService(svc *corev1.Service, reason, message string) {
	r.log.Warn("problem of a service", "service", object.NameOf(svc).String(), "reason", reason, "message", message)
	r.Warn(reference(svc), svc.GetMetadata().GetNamespace(), reason, message)
}

// WarnNode writes an event about the node. Nodes are in no namespace, so their events are in the
// default one.
func (r *Recorder) WarnNode(reason, message string) {
	r.log.Warn("problem of the node", "reason", reason, "message", message)
	r.Warn(&corev1.ObjectReference{Kind: "Node", ApiVersion: "v1", Name: r.node}, object.DefaultNamespace, reason, message)
}

// Warn writes an event about any object, in the given namespace.
func (r *Recorder) Warn(about *corev1.ObjectReference, namespace, reason, message string) {
	event := newEvent(r.component, about, namespace, corev1.EventType_EVENT_TYPE_WARNING, reason, message)
	event.ReportingInstance = r.node
	select {
	case r.queue <- event:
	default:
		r.log.Debug("event dropped: too many wait")
	}
}

// Watch makes a guard write events about objects that are not applied, in their namespace or in the default one.
func (r *Recorder) Watch(g *guard.Guard) {
	g.ReportTo(func(o guard.Object, reason, message string) {
		r.Warn(Reference(o), cmp.Or(o.Namespace, object.DefaultNamespace), reason, message)
	})
}

// Reference returns the reference of an event to an object of a guard, which does not know the object's uid.
func Reference(o guard.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: o.Kind, ApiVersion: "v1", Namespace: o.Namespace, Name: o.Name}
}

// Run writes the queued events until ctx is done.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-r.queue:
			r.write(ctx, event)
		}
	}
}

// write tries to write an event until it succeeds or a retry is pointless.
func (r *Recorder) write(ctx context.Context, event *corev1.Event) {
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		err := r.try(ctx, event)
		if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
			if err != nil && ctx.Err() == nil {
				r.log.Warn("event not written", "reason", event.GetReason(), "err", err)
			}
			return
		}
		if !app.Pause(ctx, pause) {
			return
		}
	}
}

func (r *Recorder) try(ctx context.Context, event *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := r.client.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: event})
	return err
}
