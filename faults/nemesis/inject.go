package nemesis

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"portolan.dev/faults/lab"
)

// event is the beginning or the end of a fault.
type event struct {
	at    time.Duration
	fault int  // index in the schedule
	heals bool // true for the end
}

// events returns the beginnings and ends of the faults, sorted by time. The ends of faults with
// healLast follow all other events.
func (s Schedule) events() []event {
	var all []event
	for n, f := range s {
		all = append(all, event{f.At, n, false}, event{f.At + f.For, n, true})
	}
	slices.SortStableFunc(all, func(a, b event) int { return int(a.at - b.at) })
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(all), func(e event) bool { return e.heals && kinds[s[e.fault].Kind].healLast }),
		slices.DeleteFunc(slices.Clone(all), func(e event) bool { return !e.heals || !kinds[s[e.fault].Kind].healLast }))
}

// injectFaults begins and heals the faults at their times. Like a supervisor, it restarts processes
// that exit.
func (r *run) injectFaults(s Schedule) error {
	began := time.Now()
	skipped := map[int]bool{}
	endDisturbance := map[int]func(){}
	for _, e := range s.events() {
		r.superviseUntil(began.Add(e.at))
		f := s[e.fault]
		machines, err := f.findTargets(r.Lab)
		if err != nil {
			return err
		}
		switch {
		case !e.heals:
			endDisturbance[e.fault] = r.recorder.BeginFault(f.String())
			err = kinds[f.Kind].begin(r.Lab, machines)
			if kinds[f.Kind].mayFail || errors.Is(err, lab.ErrNoStandby) {
				skipped[e.fault] = err != nil
			}
			if skipped[e.fault] {
				r.Logf("%s was not injected: %v", f, err)
				err = nil
			}
		case !skipped[e.fault]:
			err = kinds[f.Kind].heal(r.Lab, machines)
		}
		if e.heals {
			endDisturbance[e.fault]()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	r.supervise()
	for n, f := range s {
		if !skipped[n] {
			r.measured.Happened = append(r.measured.Happened, f.Kind)
		}
	}
	return nil
}

// supervisionInterval is the time between two checks for processes that have exited.
const supervisionInterval = 100 * time.Millisecond

// superviseUntil waits until end, and calls supervise in intervals.
func (r *run) superviseUntil(end time.Time) {
	for time.Now().Before(end) {
		<-time.After(min(supervisionInterval, time.Until(end)))
		r.supervise()
	}
}

// supervise restarts all processes that have exited, and counts the restarts.
func (r *run) supervise() {
	for _, m := range r.Machines() {
		if m.Supervise() {
			r.figures.Restarts[m.Name]++
		}
	}
}
