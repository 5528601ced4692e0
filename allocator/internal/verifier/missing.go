package verifier

import (
	"context"
	"fmt"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

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
	if !v.mayDecide() {
		return
	}
	for _, svc := range services {
		v.cfg.Guard.Run(stepAllocate, guard.Object(object.KeyOf(svc)), func() { v.allocateMissingOf(ctx, svc) })
	}
}

// allocateMissingOf allocates the values that a service has without an allocation.
func (v *Verifier) allocateMissingOf(ctx context.Context, svc *corev1.Service) {
	for _, a := range v.allocatablesOf(svc) {
		switch {
		case a.err != nil:
			v.report(ctx, svc, a.objectValue, "", ipNotValid, portNotValid, fmt.Sprintf("%s: %v", a.field, a.err))
		case v.cfg.Engine.Owns(ownerOfValue(svc, a.use).UID, a.value):
		case v.movesBetweenOwners(svc, a):
		case v.isReserved(a.value): // the holder settles it, or freeUnowned does after the grace
		case v.justReleased(a.value):
		default:
			v.allocate(ctx, svc, a)
		}
	}
}

// allocate allocates a value to the service that already has it. The value is requested explicitly,
// so the request fails if another owner has it.
func (v *Verifier) allocate(ctx context.Context, svc *corev1.Service, a allocatable) {
	meta, w, value := svc.GetMetadata(), a.objectValue, a.value
	if !v.confirmedByRegistry(ctx, svc, w, value) {
		return
	}
	owner, request := ownerOfValue(svc, a.use), a.request()
	if owner.Kind == spec.KindAddressShare && v.holdsAnother(newSharing(v.view.services()), sharedSlot{owner.UID, request.Slot}, value) {
		request = a.repairRequest()
	}
	set := engine.Set{Owner: owner, Requests: []allocation.ClaimRequest{request}}
	results, err := v.cfg.Engine.Allocate(ctx, []engine.Set{set}, false)
	if err != nil {
		v.cfg.Log.Warn("values of a service not allocated", "service", meta.GetName(), "value", w.text, "err", err)
		return
	}
	if failures := results[0].Failures; len(failures) > 0 {
		v.reportRefused(ctx, svc, w, value, failures[0])
		return
	}
	v.confirm(ctx, []engine.OwnerSlots{{UID: set.Owner.UID, Slots: []string{request.Slot}}})
	if !results[0].Results[0].New {
		return // another replica was faster, and reports it
	}
	v.metrics.readded.Inc()
	v.report(ctx, svc, w, "", ipRepaired, portRepaired, fmt.Sprintf("%s: %s was not allocated; it is now", w.field, w.text))
}

// isReserved reports whether a value is in a reserve.
func (v *Verifier) isReserved(value pool.Value) bool {
	owner, ok := v.cfg.Engine.OwnerOf(value)
	return ok && owner.Kind == store.KindReserve
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
	now, ok := o.(*corev1.Service)
	return ok && now.GetMetadata().GetUid() == svc.GetMetadata().GetUid() && isStored(now, w.use, value)
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

// reportToOwner writes an Event on the service that owns a value which another service has too. The
// traffic of both is disturbed, and nothing else names the cause.
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
	switch w.use {
	case allocatorv1.Use_USE_NODE_PORT:
		reason = port
	case allocatorv1.Use_USE_LOAD_BALANCER_IP:
		reason = "LoadBalancer" + strings.TrimPrefix(ip, "Cluster")
	}
	if ip == ipRepaired {
		typ = corev1.EventType_EVENT_TYPE_NORMAL
	}
	v.reportOnce(ctx, svc, eventSubject{svc.GetMetadata().GetUid(), w.field, other}, event{typ, reason, w.text, message})
}

// event is an event to report. An event with the same reason and subject as a reported one is the same
// event.
type event struct {
	typ                      corev1.EventType
	reason, subject, message string
}

// reportOnce records an event on an object, unless the last event for the key was the same.
func (v *Verifier) reportOnce(ctx context.Context, about object.Object, key eventSubject, e event) {
	said := e.reason + " " + e.subject
	v.foundInPass[key] = true
	if v.reported[key] == said {
		return
	}
	if err := v.cfg.Registry.Report(ctx, about, e.typ, e.reason, e.message); err != nil {
		v.outage.Failed(err, "event", e.reason)
		return
	}
	v.outage.Over()
	v.reported[key] = said
	v.metrics.reports.WithLabelValues(e.reason).Inc()
}
