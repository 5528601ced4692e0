package columns

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	kubev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/services/kube"
)

var events = printer{
	columns: []metav1.TableColumnDefinition{
		text("Last Seen", "Time since the last occurrence."), text("Type", "Normal or Warning."), text("Reason", "The occurrence, as one word."),
		text("Object", "The object that the event concerns."), wide("Subobject", "The part of the object."), wide("Source", "Who reported the event."),
		text("Message", "The occurrence, in words."), wide("First Seen", "Time since the first occurrence."), wide("Count", "Number of occurrences."),
		{Name: "Name", Type: "string", Format: "name", Priority: 1, Description: name.Description},
	},
	cells: func(o kube.Object) []any {
		switch e := o.(type) {
		case *eventsv1.Event:
			return eventCells(e.Name, &e.Regarding, e.Type, e.Reason, e.Note, e.DeprecatedSource, e.DeprecatedFirstTimestamp, e.DeprecatedLastTimestamp, e.DeprecatedCount)
		case *kubev1.Event:
			return eventCells(e.Name, &e.InvolvedObject, e.Type, e.Reason, e.Message, e.Source, e.FirstTimestamp, e.LastTimestamp, e.Count)
		}
		return nil
	},
}

func eventCells(
	name string, of *kubev1.ObjectReference, eventType, reason, message string, source kubev1.EventSource, first, last metav1.Time, count int32,
) []any {
	object := strings.ToLower(of.Kind)
	if of.Name != "" {
		object += "/" + of.Name
	}
	reporter := source.Component
	if source.Host != "" {
		reporter += ", " + source.Host
	}
	return []any{Age(last), eventType, reason, object, of.FieldPath, reporter, strings.TrimSpace(message), Age(first), int64(count), name}
}

var leases = printer{
	columns: []metav1.TableColumnDefinition{name, text("Holder", "The holder of the lease."), age},
	cells: func(o kube.Object) []any {
		lease, _ := o.(*coordinationv1.Lease)
		holder := ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		return []any{lease.Name, holder, Age(lease.CreationTimestamp)}
	},
}
