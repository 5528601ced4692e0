package check

import (
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// timedValue is a value that is derived from some services and their EndpointSlices. It is valid
// from a change of them until the next one.
type timedValue[T any] struct {
	// committed is the earliest time at which the change may have been committed. known is the time
	// at which a client first knew of it.
	committed, known time.Time
	value            T
}

// timelineOf returns the values of a function over the whole log. The function depends on the given
// services and their EndpointSlices.
//
// The world that compute receives has the slices that the endpoint controller made, and services
// without selectors, because name servers and nodes use slices, which follow pods with a delay.
func timelineOf[T any](h *history.History, services map[object.Key]bool, compute func(*model.World) T) []timedValue[T] {
	world := model.New()
	put := func(o object.Object) bool {
		switch o := o.(type) {
		case *corev1.Service:
			if services[object.KeyOf(o)] {
				svc := object.Clone(o)
				svc.Spec.Selector = nil
				world.Put(svc)
				return true
			}
		case *corev1.EndpointSlice:
			if services[object.ServiceKey(o)] {
				world.Put(o)
				return true
			}
		}
		return false
	}
	for _, o := range h.Log.Objects {
		put(o)
	}
	timeline := []timedValue[T]{{value: compute(world)}}
	cursor := newFirstKnownCursor(h)
	for s := range h.Log.Steps() {
		known := cursor.timeOf(s)
		removed := s.Old != nil && world.Get(s.Key) != nil
		if removed {
			world.Delete(s.Key)
		}
		if added := s.New != nil && put(s.New); !added && !removed {
			continue
		}
		timeline = append(timeline, timedValue[T]{s.Time, known, compute(world)})
	}
	return timeline
}

// firstKnownCursor returns the earliest time at which any client knew of each step of a log.
type firstKnownCursor struct{ remaining []firstKnown }

func newFirstKnownCursor(h *history.History) *firstKnownCursor {
	return &firstKnownCursor{firstKnownTimes(h)}
}

// timeOf returns the time at which a client first knew of a step. Call it with the steps in the
// order of the log.
func (c *firstKnownCursor) timeOf(s history.Step) time.Time {
	for len(c.remaining) > 0 && c.remaining[0].revision < s.Revision {
		c.remaining = c.remaining[1:]
	}
	if len(c.remaining) == 0 {
		return s.Time
	}
	return later(s.Time, c.remaining[0].at)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// valuesBetween returns the values that a daemon may use between two times, if it receives changes
// within a lag. Faults extend the lag by their own duration, and by the lag itself after their end.
func valuesBetween[T any](h *history.History, timeline []timedValue[T], from, to time.Time, lag time.Duration) []T {
	var values []T
	for i, v := range slices.Backward(timeline) {
		if i < len(timeline)-1 {
			replaced := timeline[i+1].known
			if delay := from.Sub(replaced); delay > lag && delay > lag+h.FaultDuration(replaced, from, lag) {
				break
			}
		}
		if !v.committed.After(to) {
			values = append(values, v.value)
		}
	}
	return values
}
