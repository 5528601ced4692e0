package verifier

import (
	"context"
	"fmt"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Reasons of events.
const (
	ipNotValid   = "ClusterIPNotValid"
	ipOutOfRange = "ClusterIPOutOfRange"
	ipTaken      = "ClusterIPAlreadyAllocated"
	ipRepaired   = "ClusterIPNotAllocated"
	portNotValid = "PortNotValid"
	portOutside  = "PortOutOfRange"
	portTaken    = "PortAlreadyAllocated"
	portRepaired = "PortNotAllocated"
	// repairedSlots is the prefix of the slots that the verifier claims. The value follows it, so
	// no other claim has such a slot.
	repairedSlots = "repair/"
)

// allocateMissing allocates the values that services have without an allocation.
func (v *Verifier) allocateMissing(ctx context.Context, services []*corev1.Service) {
	if !v.cfg.ViewCurrent() {
		return
	}
	for _, svc := range services {
		uid := svc.GetMetadata().GetUid()
		for _, w := range valuesOf(svc) {
			value, err := parse(w)
			switch {
			case err != nil:
				v.report(ctx, svc, w, "", ipNotValid, portNotValid, fmt.Sprintf("%s: %v", w.field, err))
			case v.cfg.Engine.Owns(uid, value):
			case v.justReleased(value):
			default:
				v.allocate(ctx, svc, w, value)
			}
		}
	}
}

// allocate allocates a value to the service that already has it. The value is requested explicitly,
// so the request fails if another owner has it.
func (v *Verifier) allocate(ctx context.Context, svc *corev1.Service, w objectValue, value pool.Value) {
	meta := svc.GetMetadata()
	if !v.confirmedByRegistry(ctx, svc, w, value) {
		return
	}
	slot := repairedSlots + value.String()
	set := engine.Set{
		Owner:    ownerOf(svc),
		Requests: []allocation.ClaimRequest{{Slot: slot, Use: w.use, Value: w.text, Repair: true}},
	}
	results, err := v.cfg.Engine.Allocate(ctx, []engine.Set{set}, false)
	if err != nil {
		v.cfg.Log.Warn("values of a service not allocated", "service", meta.GetName(), "value", w.text, "err", err)
		return
	}
	if failures := results[0].Failures; len(failures) > 0 {
		v.reportRefused(ctx, svc, w, value, failures[0])
		return
	}
	v.confirm(ctx, []engine.OwnerSlots{{UID: meta.GetUid(), Slots: []string{slot}}})
	v.metrics.readded.Inc()
	v.report(ctx, svc, w, "", ipRepaired, portRepaired, fmt.Sprintf("%s: %s was not allocated; it is now", w.field, w.text))
}

// justReleased reports whether a value was released within the grace. Its owner is probably being
// deleted: a registry releases the values of a deleted service as soon as the deletion is
// committed, and another replica may still have the service. If a service has the value after all,
// it is allocated when the grace is over.
func (v *Verifier) justReleased(value pool.Value) bool {
	since, rests := v.cfg.Engine.RestingSince(value)
	return rests && time.Since(since) < v.cfg.Grace
}

// confirmedByRegistry reports whether the service has the value according to the registry, because
// the view may lag behind it.
func (v *Verifier) confirmedByRegistry(ctx context.Context, svc *corev1.Service, w objectValue, value pool.Value) bool {
	key := object.KeyOf(svc)
	o, err := v.get(ctx, key)
	if err != nil {
		return false
	}
	return o != nil && o.GetMetadata().GetUid() == svc.GetMetadata().GetUid() && hasValue(o, w.use, value)
}

func (v *Verifier) reportRefused(ctx context.Context, svc *corev1.Service, w objectValue, value pool.Value, f allocation.Failure) {
	if f.Reason != allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED {
		v.report(ctx, svc, w, "", ipOutOfRange, portOutside, fmt.Sprintf("%s: %s; please recreate the service", w.field, f.Message))
		return
	}
	owner, ok := v.cfg.Engine.OwnerOf(value)
	whose := ""
	if ok && owner.Name != "" {
		whose = fmt.Sprintf(" to %s %s/%s", owner.Kind, owner.Namespace, owner.Name)
	}
	message := fmt.Sprintf("%s: %s is already allocated%s; clients of one reach the backends of the other; please recreate this service, so that it gets another",
		w.field, w.text, whose)
	v.report(ctx, svc, w, owner.UID, ipTaken, portTaken, message)
	v.reportToOwner(ctx, owner, svc, w, value)
}

// reportToOwner writes an Event on the service that holds a value which another service has too.
// Traffic of both is disturbed, and nothing else names the cause.
func (v *Verifier) reportToOwner(ctx context.Context, owner store.Owner, other *corev1.Service, w objectValue, value pool.Value) {
	svc, ok := v.view.get(owner.UID).(*corev1.Service)
	if !ok {
		return
	}
	for _, own := range valuesOf(svc) {
		if own.use == w.use && sameValue(own, value) {
			meta := other.GetMetadata()
			v.report(ctx, svc, own, meta.GetUid(), ipTaken, portTaken, fmt.Sprintf(
				"%s: %s is also in Service %s/%s, to which it is not allocated; clients of one reach the backends of the other; please recreate Service %s/%s",
				own.field, own.text, meta.GetNamespace(), meta.GetName(), meta.GetNamespace(), meta.GetName()))
			return
		}
	}
}

// report records an event, once for each reason and value of a field. other is the UID of the owner
// that has the same value, if the event is about one.
func (v *Verifier) report(ctx context.Context, svc *corev1.Service, w objectValue, other, ip, port, message string) {
	reason, typ := ip, corev1.EventType_EVENT_TYPE_WARNING
	if w.use == allocatorv1.Use_USE_NODE_PORT {
		reason = port
	}
	if reason == ipRepaired || reason == portRepaired {
		typ = corev1.EventType_EVENT_TYPE_NORMAL
	}
	key, said := eventSubject{svc.GetMetadata().GetUid(), w.field, other}, reason+" "+w.text
	v.foundInPass[key] = true
	if v.reported[key] == said {
		return
	}
	if err := v.cfg.Registry.Report(ctx, svc, typ, reason, message); err != nil {
		v.outage.Failed(err, "event", reason)
		return
	}
	v.outage.Over()
	v.reported[key] = said
	v.metrics.reports.WithLabelValues(reason).Inc()
}
