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
type generator struct {
	random *rand.Rand
	events []Event
}

func newGenerator(seed uint64) *generator {
	return &generator{random: rand.New(rand.NewPCG(seed, 0))}
}

// add adds an event.
func (g *generator) add(at time.Duration, do func(*world), format string, args ...any) {
	g.events = append(g.events, Event{at, fmt.Sprintf(format, args...), do})
}

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

// upTo returns a time below a bound, more often a short one than a long one.
func (g *generator) upTo(limit time.Duration) time.Duration {
	share := g.random.Float64()
	return time.Duration(share * share * float64(limit))
}

// within returns a time between the first writes and the end of a schedule.
func (g *generator) within(length time.Duration) time.Duration {
	return firstWrite/2 + time.Duration(g.random.Int64N(int64(length)))
}

// beginning is when the first writes of a schedule happen: the daemons have come up by then.
const firstWrite = 200 * time.Millisecond

// pick returns one of several.
func pick[T any](g *generator, all ...T) T { return all[g.random.IntN(len(all))] }

// ordered returns the events in the order of their times.
func (g *generator) ordered() []Event {
	slices.SortStableFunc(g.events, func(a, b Event) int { return int(a.At - b.At) })
	return g.events
}
