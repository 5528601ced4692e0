package kinds

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/view"
	"portolan.dev/services/object"
)

// stampEvent keeps the count of repetitions, which is the registry's.
func stampEvent(w World, o, old object.Object) {
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

// foldEvent finds the event that says the same already.
func foldEvent(w World, o object.Object) *view.Item {
	event, ok := o.(*corev1.Event)
	if !ok {
		return nil
	}
	if same := w.Indexes.Events.Lookup(sameEvent(event)); len(same) > 0 {
		return same[0]
	}
	return nil
}

func repeatEvent(w World, existing, _ object.Object) {
	if event, ok := existing.(*corev1.Event); ok {
		event.Count++
		event.LastTimestamp = timestamppb.New(w.Now)
	}
}

// stampLease makes the fencing epoch grow whenever somebody else takes the lease. It begins with the newest revision, so that it also grows from
// one incarnation of the lease to the next.
func stampLease(w World, o, old object.Object) {
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
