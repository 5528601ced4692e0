package rules

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/object"
)

// setEventTimes sets the count and the times of an event, which only the registry may set.
func setEventTimes(w Context, o, old object.Object) {
	event, ok := o.(*corev1.Event)
	if !ok {
		return
	}
	if before, ok := old.(*corev1.Event); ok {
		event.Count, event.FirstTimestamp, event.LastTimestamp = before.GetCount(), before.GetFirstTimestamp(), before.GetLastTimestamp()
		return
	}
	event.Count = 1
	event.FirstTimestamp = timestamppb.New(w.Now)
	event.LastTimestamp = timestamppb.New(w.Now)
}

// findRepeatedEvent returns the event that the new one repeats, or nil.
func findRepeatedEvent(w Context, o object.Object) *view.Item {
	event, ok := o.(*corev1.Event)
	if !ok {
		return nil
	}
	if same := w.Indexes.Events.Lookup(eventIdentity(event)); len(same) > 0 {
		return same[0]
	}
	return nil
}

func countEventRepetition(w Context, existing, _ object.Object) {
	if event, ok := existing.(*corev1.Event); ok {
		event.Count++
		event.LastTimestamp = timestamppb.New(w.Now)
	}
}

// setLeaseEpoch increases the fencing epoch whenever the holder changes. The epoch starts from the
// newest revision, so that it also grows when a lease is deleted and created again.
func setLeaseEpoch(w Context, o, old object.Object) {
	lease, ok := o.(*corev1.Lease)
	if !ok {
		return
	}
	before, _ := old.(*corev1.Lease)
	holder := lease.GetSpec().GetHolderIdentity()
	switch {
	case before == nil:
		lease.Spec.Epoch = w.Revision + 1
	case holder != "" && holder != before.GetSpec().GetHolderIdentity():
		lease.Spec.Epoch = max(before.GetSpec().GetEpoch(), w.Revision) + 1
	default:
		lease.Spec.Epoch = before.GetSpec().GetEpoch()
	}
}
