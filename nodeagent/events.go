package nodeagent

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
)

// Reasons of the events that the agent writes on services.
const (
	reasonFailedToListen      = "FailedToListen"
	reasonNotSupported        = "NotSupportedByDataPlane"
	reasonFailedToProgram     = "FailedToProgram"
	reasonAddressInUse        = "AddressInUse"
	reasonInvalid             = "InvalidServiceOrEndpoint"
	reasonHealthCheckNodePort = "FailedToStartServiceHealthcheck"
	reasonNodePortTaken       = "NodePortTaken"

	// Reasons of events on the node. FailedToProgram is used there too, for failures that concern
	// all services.
	reasonProxyModeFallback = "ProxyModeFallback"
	reasonKernelSetting     = "KernelSettingRefused"
	reasonFailedToAudit     = "FailedToReadBack"
	reasonViewRefused       = "ViewOnDiskRefused"
	reasonAddressesUnknown  = "AddressesUnknown"
)

const (
	eventQueue      = 256              // events that may wait; further ones are dropped
	eventTimeout    = 10 * time.Second // for one event
	eventRetryMin   = 200 * time.Millisecond
	eventRetryMax   = 10 * time.Second
	maxEventMessage = 1024 // the registry's limit in bytes
)

// recorder writes events in the background. While the registry is unavailable, events wait in the
// queue, so that findings of an agent that starts alone are reported later. Events that do not fit
// are lost, but the agent's status still has everything.
type recorder struct {
	node   string
	client registryv1.EventServiceClient
	log    *slog.Logger
	queue  chan *corev1.Event
}

func newRecorder(node string, client registryv1.EventServiceClient, log *slog.Logger) *recorder {
	return &recorder{node: node, client: client, log: log, queue: make(chan *corev1.Event, eventQueue)}
}

// warn writes an event about a service that needs attention.
func (r *recorder) warn(svc *corev1.Service, reason, message string) {
	meta := svc.GetMetadata()
	r.log.Warn("service needs a look", "service", meta.GetNamespace()+"/"+meta.GetName(), "reason", reason, "message", message)
	r.put(&corev1.ObjectReference{
		Kind: "Service", Namespace: meta.GetNamespace(), Name: meta.GetName(), Uid: meta.GetUid(),
	}, meta.GetNamespace(), reason, message)
}

// warnNode writes an event about the node. Nodes are in no namespace, so their events are in the
// default one.
func (r *recorder) warnNode(reason, message string) {
	r.log.Warn("the node needs a look", "reason", reason, "message", message)
	r.put(&corev1.ObjectReference{Kind: "Node", Name: r.node}, "default", reason, message)
}

func (r *recorder) put(about *corev1.ObjectReference, namespace, reason, message string) {
	event := &corev1.Event{
		Metadata:  &corev1.ObjectMeta{GenerateName: about.GetName() + "-", Namespace: namespace},
		Regarding: about,
		Reason:    reason, Message: cut(message, maxEventMessage), Type: corev1.EventType_EVENT_TYPE_WARNING,
		ReportingComponent: "nodeagent", ReportingInstance: r.node,
	}
	select {
	case r.queue <- event:
	default:
		r.log.Debug("event dropped: too many wait")
	}
}

// cut shortens a text without splitting a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// run writes the queued events until ctx is done.
func (r *recorder) run(ctx context.Context) error {
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
func (r *recorder) write(ctx context.Context, event *corev1.Event) {
	for pause := eventRetryMin; ; pause = min(2*pause, eventRetryMax) {
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

func (r *recorder) try(ctx context.Context, event *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	_, err := r.client.CreateEvent(ctx, &registryv1.CreateEventRequest{Event: event})
	return err
}
