package kube

import (
	"cmp"

	kubev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// event reads an event of the group "".
func (r *reader) event(from *kubev1.Event) *corev1.Event {
	return &corev1.Event{
		Metadata: r.meta(&from.ObjectMeta), Regarding: r.reference("involvedObject", &from.InvolvedObject),
		Reason: from.Reason, Message: from.Message, Type: readEnum[corev1.EventType](r, "type", from.Type), Count: from.Count,
		FirstTimestamp: readTime(from.FirstTimestamp), LastTimestamp: readTime(from.LastTimestamp),
		ReportingComponent: from.ReportingController, ReportingInstance: from.ReportingInstance,
	}
}

func writeEvent(from *corev1.Event, to *kubev1.Event) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	if regarding := writeReference(from.GetRegarding()); regarding != nil {
		to.InvolvedObject = *regarding
	}
	to.Reason, to.Message, to.Type, to.Count = from.GetReason(), from.GetMessage(), spec.EnumName(from.GetType()), from.GetCount()
	to.FirstTimestamp, to.LastTimestamp = writeTime(from.GetFirstTimestamp()), writeTime(from.GetLastTimestamp())
	to.ReportingController, to.ReportingInstance = from.GetReportingComponent(), from.GetReportingInstance()
}

// eventWithSource reads an event of the group "". Older clients name the reporter in the field source.
func (r *reader) eventWithSource(from *kubev1.Event) *corev1.Event {
	to := r.event(from)
	to.ReportingComponent = cmp.Or(to.ReportingComponent, from.Source.Component)
	to.ReportingInstance = cmp.Or(to.ReportingInstance, from.Source.Host)
	return to
}

func writeEventWithSource(from *corev1.Event, to *kubev1.Event) {
	writeEvent(from, to)
	to.Source = kubev1.EventSource{Component: from.GetReportingComponent(), Host: from.GetReportingInstance()}
}

// newEvent reads an event of the group events.k8s.io.
func (r *reader) newEvent(from *eventsv1.Event) *corev1.Event {
	return &corev1.Event{
		Metadata: r.meta(&from.ObjectMeta), Regarding: r.reference("regarding", &from.Regarding),
		Reason: from.Reason, Message: from.Note, Type: readEnum[corev1.EventType](r, "type", from.Type), Count: from.DeprecatedCount,
		FirstTimestamp: readTime(from.DeprecatedFirstTimestamp), LastTimestamp: readTime(from.DeprecatedLastTimestamp),
		ReportingComponent: from.ReportingController, ReportingInstance: from.ReportingInstance,
	}
}

func writeNewEvent(from *corev1.Event, to *eventsv1.Event) {
	to.ObjectMeta = WriteMeta(from.GetMetadata())
	if regarding := writeReference(from.GetRegarding()); regarding != nil {
		to.Regarding = *regarding
	}
	to.Reason, to.Note, to.Type, to.DeprecatedCount = from.GetReason(), from.GetMessage(), spec.EnumName(from.GetType()), from.GetCount()
	to.DeprecatedFirstTimestamp, to.DeprecatedLastTimestamp = writeTime(from.GetFirstTimestamp()), writeTime(from.GetLastTimestamp())
	to.ReportingController, to.ReportingInstance = from.GetReportingComponent(), from.GetReportingInstance()
	to.DeprecatedSource = kubev1.EventSource{Component: from.GetReportingComponent(), Host: from.GetReportingInstance()}
}
