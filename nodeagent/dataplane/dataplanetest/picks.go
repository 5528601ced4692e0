package dataplanetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"portolan.dev/nodeagent/plan"
)

// PickByRule opens and ends connections at random, Steps times. Each new connection must go to a
// backend that the rule of the scheduler chooses by the numbers of open connections. A plane without
// the scheduler may choose any backend that takes connections.
type PickByRule struct{ Steps int }

func (a PickByRule) run(w *scenarioRun) error {
	random := rand.New(rand.NewPCG(1, uint64(a.Steps))) // each run is the same
	for i := range a.Steps {
		var err error
		if n := len(w.picked); n > 0 && random.IntN(5) < 2 {
			err = w.endPicked(random.IntN(n))
		} else {
			err = w.pick()
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return nil
}

// pick opens a connection and checks its backend.
func (w *scenarioRun) pick() error {
	allowed, before := w.choices(), w.open()
	c, err := w.dial(Client{}, w.frontend("").Addr, patience)
	if err != nil {
		return err
	}
	w.picked = append(w.picked, c)
	if c.from, _, err = w.identify(c, patience); err != nil {
		return err
	}
	if !slices.Contains(allowed, c.from) {
		return fmt.Errorf("served by %d, and the rule of %s chooses one of %v by the connections %v", c.from, w.serverOf("").Scheduler, allowed, before)
	}
	return nil
}

// endPicked ends an open connection, and waits until the plane has counted that.
func (w *scenarioRun) endPicked(i int) error {
	c := w.picked[i]
	w.picked = slices.Delete(w.picked, i, i+1)
	err := w.quit(c)
	c.Close()
	if err != nil {
		return err
	}
	return Count{Want: w.open()}.run(w)
}

// open returns the numbers of open connections by backend.
func (w *scenarioRun) open() Weights {
	open := Weights{}
	for i := range w.backends {
		open[i] = 0
	}
	for _, c := range w.picked {
		open[c.from]++
	}
	return open
}

// choices returns the backends to which the rule of the scheduler may send the next connection.
func (w *scenarioRun) choices() []int {
	v, open := w.serverOf(""), w.open()
	weights := Weights{}
	for i, b := range w.backends {
		if r, ok := v.Real(b.addr); ok && r.Weight > 0 {
			weights[i] = int(r.Weight)
		}
	}
	usable := slices.Sorted(maps.Keys(weights))
	delay := func(n int) float64 { return float64(open[n]+1) / float64(weights[n]) }
	switch {
	case !w.traits.has(v.Scheduler):
		return usable
	case v.Scheduler == plan.LeastConnections:
		return lowest(usable, func(n int) float64 { return float64(open[n]) })
	case v.Scheduler == plan.NeverQueue:
		if idle := slices.DeleteFunc(slices.Clone(usable), func(n int) bool { return open[n] > 0 }); len(idle) > 0 {
			return idle
		}
		return lowest(usable, delay)
	case v.Scheduler == plan.ShortestDelay:
		return lowest(usable, delay)
	}
	return usable
}

// lowest returns the numbers with the smallest value.
func lowest(numbers []int, value func(int) float64) []int {
	var out []int
	for _, n := range numbers {
		switch {
		case len(out) == 0 || value(n) < value(out[0]):
			out = append(out[:0], n)
		case value(n) == value(out[0]):
			out = append(out, n)
		}
	}
	return out
}
