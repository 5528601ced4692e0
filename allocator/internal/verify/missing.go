package verify

import (
	"context"
	"fmt"

	allocatorv1 "portolan.dev/proto/portolan/allocator/v1"
	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/book"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Reasons of events.
const (
	ipNotValid    = "ClusterIPNotValid"
	ipOutOfRange  = "ClusterIPOutOfRange"
	ipTaken       = "ClusterIPAlreadyAllocated"
	ipMended      = "ClusterIPNotAllocated"
	portNotValid  = "PortNotValid"
	portOutside   = "PortOutOfRange"
	portTaken     = "PortAlreadyAllocated"
	portMended    = "PortNotAllocated"
	repairedSlots = "repair/" // and the value: such a slot is nobody else's
)

// allocateMissing sees to it that services have allocated what they have.
func (v *Verifier) allocateMissing(ctx context.Context, services []*corev1.Service) {
	if !v.cfg.Fresh() {
		return
	}
	for _, svc := range services {
		uid := svc.GetMetadata().GetUid()
		for _, w := range wantedBy(svc) {
			value, err := parse(w)
			switch {
			case err != nil:
				v.report(ctx, svc, w, ipNotValid, portNotValid, fmt.Sprintf("%s: %v", w.field, err))
			case v.cfg.Engine.Holds(uid, value):
				delete(v.reported, notice{uid, w.field})
			default:
				v.allocate(ctx, svc, w, value)
			}
		}
	}
}

// allocate gives a service a value that it already has. That it is asked for by
// value keeps it from those who have it allocated.
func (v *Verifier) allocate(ctx context.Context, svc *corev1.Service, w wanted, value pool.Value) {
	meta := svc.GetMetadata()
	if !v.hasForSure(ctx, svc, w, value) {
		return
	}
	slot := repairedSlots + value.String()
	set := engine.Set{
		Owner: store.Owner{UID: meta.GetUid(), Kind: kindService, Namespace: meta.GetNamespace(), Name: meta.GetName()},
		Wants: []book.Want{{Slot: slot, Use: w.use, Value: w.text, Repair: true}},
	}
	results, err := v.cfg.Engine.Allocate(ctx, []engine.Set{set}, false)
	if err != nil {
		v.cfg.Log.Warn("allocate what a service has", "service", meta.GetName(), "value", w.text, "err", err)
		return
	}
	if failures := results[0].Failures; len(failures) > 0 {
		v.refused(ctx, svc, w, value, failures[0])
		return
	}
	v.confirm(ctx, []engine.Slots{{UID: meta.GetUid(), Slots: []string{slot}}})
	v.metrics.readded.Inc()
	v.report(ctx, svc, w, ipMended, portMended, fmt.Sprintf("%s: %s was not allocated; it is now", w.field, w.text))
}

// hasForSure asks the registry itself: a service that was just deleted has its
// values released before the view knows.
func (v *Verifier) hasForSure(ctx context.Context, svc *corev1.Service, w wanted, value pool.Value) bool {
	key := object.KeyOf(svc)
	o, err := v.cfg.Registry.Get(ctx, key)
	if err != nil {
		v.cfg.Log.Warn("ask for a service", "service", key.String(), "err", err)
		return false
	}
	return o != nil && o.GetMetadata().GetUid() == svc.GetMetadata().GetUid() && has(o, w.use, value)
}

func (v *Verifier) refused(ctx context.Context, svc *corev1.Service, w wanted, value pool.Value, f book.Failure) {
	if f.Reason == allocatorv1.FailureReason_FAILURE_REASON_ALLOCATED {
		message := fmt.Sprintf("%s: %s is already allocated%s; please recreate the service", w.field, w.text, v.ownerOf(value))
		v.report(ctx, svc, w, ipTaken, portTaken, message)
		return
	}
	v.report(ctx, svc, w, ipOutOfRange, portOutside, fmt.Sprintf("%s: %s; please recreate the service", w.field, f.Message))
}

func (v *Verifier) ownerOf(value pool.Value) string {
	o, ok := v.cfg.Engine.OwnerOf(value)
	if !ok || o.Name == "" {
		return ""
	}
	return fmt.Sprintf(" to %s %s/%s", o.Kind, o.Namespace, o.Name)
}

// report records an event, once for each thing that can be said of a value.
func (v *Verifier) report(ctx context.Context, svc *corev1.Service, w wanted, ip, port, message string) {
	reason, typ := ip, corev1.EventType_EVENT_TYPE_WARNING
	if w.use == allocatorv1.Use_USE_NODE_PORT {
		reason = port
	}
	if reason == ipMended || reason == portMended {
		typ = corev1.EventType_EVENT_TYPE_NORMAL
	}
	key, said := notice{svc.GetMetadata().GetUid(), w.field}, reason+" "+w.text
	if v.reported[key] == said {
		return
	}
	if err := v.cfg.Registry.Report(ctx, svc, typ, reason, message); err != nil {
		v.cfg.Log.Warn("report", "reason", reason, "message", message, "err", err)
		return
	}
	v.reported[key] = said
	v.metrics.reports.WithLabelValues(reason).Inc()
}
