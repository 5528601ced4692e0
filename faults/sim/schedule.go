package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Event is something that happens in a schedule: a client's write, bad weather, the end of a
// daemon.
type Event struct {
	At   time.Duration // after the beginning
	Text string
	Do   func(*world)
}

// String is the line of an event in a listing.
func (e Event) String() string {
	return fmt.Sprintf("%10s  %s", e.At.Round(10*time.Microsecond), e.Text)
}

// drawing generates a schedule.
type drawing struct {
	random *rand.Rand
	events []Event
}

func newDrawing(seed uint64) *drawing {
	return &drawing{random: rand.New(rand.NewPCG(seed, 0))}
}

// add adds an event.
func (d *drawing) add(at time.Duration, do func(*world), format string, args ...any) {
	d.events = append(d.events, Event{at, fmt.Sprintf(format, args...), do})
}

// chance is true in so many of a hundred cases.
func (d *drawing) chance(percent int) bool { return d.random.IntN(100) < percent }

// upTo returns a time below a bound, more often a short one than a long one.
func (d *drawing) upTo(longest time.Duration) time.Duration {
	share := d.random.Float64()
	return time.Duration(share * share * float64(longest))
}

// within returns a time between the first writes and the end of a schedule.
func (d *drawing) within(length time.Duration) time.Duration {
	return beginning/2 + time.Duration(d.random.Int64N(int64(length)))
}

// beginning is when the first writes of a schedule happen: the daemons have come up by then.
const beginning = 200 * time.Millisecond

// pick returns one of several.
func pick[T any](d *drawing, all ...T) T { return all[d.random.IntN(len(all))] }

// ordered returns the events in the order of their times.
func (d *drawing) ordered() []Event {
	slices.SortStableFunc(d.events, func(a, b Event) int { return int(a.At - b.At) })
	return d.events
}
