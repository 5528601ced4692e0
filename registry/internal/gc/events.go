package gc

import (
	"cmp"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
)

// EventLimits are the limits of the events that are kept.
type EventLimits struct {
	Number    int // of all events
	PerWriter int // number of the events of one writer
	Bytes     int // size of all events; a writer has the same share of it as PerWriter is of Number
}

// Limits of events, by the name of their flag.
const (
	limitEvents     = "max-events"
	limitEventBytes = "max-event-bytes"
	limitPerWriter  = "max-events-per-writer"
)

// dueEvent is an event that has to go. limit is the limit that it exceeds, or "" if it is too old.
type dueEvent struct {
	item  *view.Item
	limit string
}

// dueEvents returns the events that are too old, and the oldest of the others as far as they exceed
// the limits.
func (r *Reaper) dueEvents(now time.Time) []dueEvent {
	var young []*view.Item
	var due []dueEvent
	for item := range r.view.State().All("Event", "") {
		if now.Sub(lastSeen(item)) > r.EventTTL {
			due = append(due, dueEvent{item: item})
		} else {
			young = append(young, item)
		}
	}
	if len(overLimit(r.Events, young)) == 0 {
		return due
	}
	slices.SortFunc(young, func(a, b *view.Item) int { // the newest first
		return cmp.Or(lastSeen(b).Compare(lastSeen(a)), cmp.Compare(b.Revision, a.Revision))
	})
	return append(due, overLimit(r.Events, young)...)
}

// overLimit returns the events that exceed the limits if they are counted in the given order.
// Events that exceed a limit do not count towards the others.
func overLimit(limits EventLimits, events []*view.Item) []dueEvent {
	writerBytes := limits.Bytes * min(limits.PerWriter, limits.Number) / limits.Number
	var all eventCount
	writers := map[[2]string]*eventCount{}
	var over []dueEvent
	for _, item := range events {
		key := writerOf(item)
		if writers[key] == nil {
			writers[key] = &eventCount{}
		}
		own, size := writers[key], len(item.Bytes)
		switch {
		case own.number == limits.PerWriter || own.bytes+size > writerBytes:
			over = append(over, dueEvent{item, limitPerWriter})
		case all.number == limits.Number:
			over = append(over, dueEvent{item, limitEvents})
		case all.bytes+size > limits.Bytes:
			over = append(over, dueEvent{item, limitEventBytes})
		default:
			own.add(size)
			all.add(size)
		}
	}
	return over
}

// eventCount is the number and the size of events.
type eventCount struct{ number, bytes int }

func (c *eventCount) add(size int) {
	c.number++
	c.bytes += size
}

// writerOf returns the component and the instance that reported an event. Certificates of node
// agents write events in their own name only.
func writerOf(item *view.Item) [2]string {
	event, _ := item.Object.(*corev1.Event)
	return [2]string{event.GetReportingComponent(), event.GetReportingInstance()}
}

func lastSeen(item *view.Item) time.Time {
	event, _ := item.Object.(*corev1.Event)
	if at := event.GetLastTimestamp(); at != nil {
		return at.AsTime()
	}
	return event.GetMetadata().GetCreationTimestamp().AsTime()
}
