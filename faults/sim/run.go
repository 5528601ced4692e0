package sim

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// scenario is a kind of simulation.
type scenario struct {
	// draw generates the events of a schedule.
	draw func(*generator)
	// run starts daemons in a world, lets the events happen, and returns an error if a check fails.
	run func(w *world, events []Event) error
}

// simulation is a schedule to run.
type simulation struct {
	scenario scenario
	seed     uint64
	keep     []int // indices of the events that happen; nil: all
	log      io.Writer
}

// run runs the schedule in a bubble of virtual time, and returns the error of the checks.
func (s simulation) run(t *testing.T) (failure error) {
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("seed %d: %v", s.seed, p))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		events := drawSchedule(s.scenario, s.seed)
		if s.keep != nil {
			events = selectEvents(events, s.keep)
		}
		w := newWorld(t, s.seed, s.log)
		failure = s.scenario.run(w, events)
		w.close()
		failure = errors.Join(append(w.failures, failure)...)
		if w.natsCut {
			emptyTimerPool()
		}
	})
	return failure
}

// events returns how many events the schedule has.
func (s simulation) events() int { return len(drawSchedule(s.scenario, s.seed)) }

// String lists the events that happen.
func (s simulation) String() string {
	text := ""
	for i, e := range drawSchedule(s.scenario, s.seed) {
		if s.keep == nil || slices.Contains(s.keep, i) {
			text += fmt.Sprintf("%5d %v\n", i, e)
		}
	}
	return text
}

// drawSchedule returns the events of a seed.
func drawSchedule(s scenario, seed uint64) []Event {
	g := newGenerator(seed)
	s.draw(g)
	return g.ordered()
}

func selectEvents(events []Event, keep []int) []Event {
	var kept []Event
	for _, i := range keep {
		if i < len(events) {
			kept = append(kept, events[i])
		}
	}
	return kept
}

// forgetTimers empties the pool in which nats.go keeps the timers of reconnects, because a timer
// belongs to the bubble that it was made in. The second collection frees the timers that the first
// one only sets apart.
func emptyTimerPool() {
	runtime.GC()
	runtime.GC()
}
