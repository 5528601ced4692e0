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
	// run starts daemons in a world, plays the events, and returns an error if a check fails.
	run func(w *world, events []Event) error
}

// simulation is a schedule to run.
type simulation struct {
	scenario scenario
	seed     uint64
	keep     []int // indices of the events to play; nil for all
	log      io.Writer
}

// run runs the schedule in a synctest bubble and returns the errors of its checks and daemons.
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

// events returns the number of events of the whole schedule.
func (s simulation) events() int { return len(drawSchedule(s.scenario, s.seed)) }

// String lists the events to play, with their indices.
func (s simulation) String() string {
	text := ""
	for i, e := range drawSchedule(s.scenario, s.seed) {
		if s.keep == nil || slices.Contains(s.keep, i) {
			text += fmt.Sprintf("%5d %v\n", i, e)
		}
	}
	return text
}

// drawSchedule returns the events of a seed, ordered by time.
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

// emptyTimerPool empties the sync.Pool in which nats.go keeps timers for reconnects, because a
// timer must not be used outside of the bubble that created it. An object in a pool is freed by the
// second garbage collection.
func emptyTimerPool() {
	runtime.GC()
	runtime.GC()
}
