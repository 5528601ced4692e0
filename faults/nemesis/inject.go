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
	fault int
	heals bool
}

// events returns the beginnings and ends of the faults, in the order of time.
func (s Schedule) events() []event {
	var all []event
	for n, f := range s {
		all = append(all, event{f.At, n, false}, event{f.At + f.For, n, true})
	}
	slices.SortStableFunc(all, func(a, b event) int { return int(a.at - b.at) })
	// Faults of a kind with last set are healed after all others.
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(all), func(e event) bool { return e.heals && kinds[s[e.fault].Kind].healLast }),
		slices.DeleteFunc(slices.Clone(all), func(e event) bool { return !e.heals || !kinds[s[e.fault].Kind].healLast }))
}

// injectFaults begins and heals the faults at their times. Like a supervisor, it restarts processes
// that end by themselves.
func (r *run) injectFaults(s Schedule) error {
	began := time.Now()
	missed := map[int]bool{}
	over := map[int]func(){}
	for _, e := range s.events() {
		r.superviseUntil(began.Add(e.at))
		f := s[e.fault]
		machines, err := f.machinesOf(r.Lab)
		if err != nil {
			return err
		}
		switch {
		case !e.heals:
			over[e.fault] = r.recorder.BeginFault(f.String())
			err = kinds[f.Kind].begin(r.Lab, machines)
			if kinds[f.Kind].mayFail || errors.Is(err, lab.ErrNoStandby) {
				missed[e.fault] = err != nil
			}
			if missed[e.fault] {
				r.Logf("%s did not happen: %v", f, err)
				err = nil
			}
		case !missed[e.fault]:
			err = kinds[f.Kind].heal(r.Lab, machines)
		}
		if e.heals {
			over[e.fault]()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	r.supervise()
	for n, f := range s {
		if !missed[n] {
			r.now.Happened = append(r.now.Happened, f.Kind)
		}
	}
	return nil
}

// supervision is the time between two checks for ended processes.
const supervision = 100 * time.Millisecond

// superviseUntil waits until a time, and supervises meanwhile.
func (r *run) superviseUntil(end time.Time) {
	for time.Now().Before(end) {
		<-time.After(min(supervision, time.Until(end)))
		r.supervise()
	}
}

func (r *run) supervise() {
	for _, m := range r.Machines() {
		if m.Supervise() {
			r.figures.Restarts[m.Name]++
		}
	}
}
