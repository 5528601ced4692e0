package check

import (
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// stateAt is something that follows from the objects of some services, from a change on until the
// next moment.
type stateAt[T any] struct {
	// from is the earliest time at which the change may have been committed. known is the time at
	// which a client first knew of it.
	from, known time.Time
	value       T
}

// momentsOf returns how something that follows from the named services and their slices changed in
// the log.
//
// The world that compute gets has the slices that the endpoint controller made, and no selectors:
// name servers and nodes go by slices, which follow pods later.
func momentsOf[T any](h *history.History, services map[object.Key]bool, compute func(*model.World) T) []stateAt[T] {
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
	moments := []stateAt[T]{{value: compute(world)}}
	clock := clockOf(h)
	for s := range h.Log.Steps() {
		known := clock.known(s)
		gone := s.Old != nil && world.Get(s.Key) != nil
		if gone {
			world.Delete(s.Key)
		}
		if came := s.New != nil && put(s.New); !came && !gone {
			continue
		}
		moments = append(moments, stateAt[T]{s.Time, known, compute(world)})
	}
	return moments
}

// clock has the earliest time at which any client knew of each step of a log.
type clock struct{ news []firstKnown }

func clockOf(h *history.History) *clock { return &clock{firstKnownOf(h)} }

// known returns the time at which a client first knew of a step. It must be called with the steps
// in the order of the log.
func (c *clock) known(s history.Step) time.Time {
	for len(c.news) > 0 && c.news[0].revision < s.Revision {
		c.news = c.news[1:]
	}
	if len(c.news) == 0 {
		return s.Time
	}
	return later(s.Time, c.news[0].at)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// valuesBetween returns the values that a daemon may use between two times, if it learns of a
// change within a lag. The nemesis makes the lag longer while it is at work, and for as long
// afterwards.
func valuesBetween[T any](h *history.History, moments []stateAt[T], from, to time.Time, lag time.Duration) []T {
	var values []T
	for i, m := range slices.Backward(moments) {
		if i < len(moments)-1 {
			over := moments[i+1].known
			if late := from.Sub(over); late > lag && late > lag+h.Disturbed(over, from, lag) {
				break
			}
		}
		if !m.from.After(to) {
			values = append(values, m.value)
		}
	}
	return values
}
