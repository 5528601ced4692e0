package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Event is one event of a schedule, such as a client's write, an impairment or the end of a daemon.
type Event struct {
	At   time.Duration // since the start of the world
	Text string
	Do   func(*world)
}

// String returns the time and the text of the event.
func (e Event) String() string {
	return fmt.Sprintf("%10s  %s", e.At.Round(10*time.Microsecond), e.Text)
}

// generator generates the events of a schedule from a seed.
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

// chance returns true with a probability of percent.
func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

// upTo returns a random time below limit. Short times are more likely than long ones.
func (g *generator) upTo(limit time.Duration) time.Duration {
	share := g.random.Float64()
	return time.Duration(share * share * float64(limit))
}

// within returns a random time of a fault in a schedule with writes of the given length.
func (g *generator) within(length time.Duration) time.Duration {
	return firstWrite/2 + time.Duration(g.random.Int64N(int64(length)))
}

// firstWrite is the time of a schedule's first write. The daemons have started by then.
const firstWrite = 200 * time.Millisecond

// pick returns a random one of its arguments.
func pick[T any](g *generator, all ...T) T { return all[g.random.IntN(len(all))] }

// ordered returns the events, ordered by time.
func (g *generator) ordered() []Event {
	slices.SortStableFunc(g.events, func(a, b Event) int { return int(a.At - b.At) })
	return g.events
}
