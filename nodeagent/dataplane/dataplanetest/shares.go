package dataplanetest

import (
	"fmt"
	"math"
	"slices"
)

// AskShares connects once as each of Clients clients, or with Ports, from as many ports of one client.
// The backends must serve them in proportion to the weights, as far as chance explains the difference.
type AskShares struct {
	Clients int
	Ports   bool
	Want    Weights
	// Keep has the backends that must keep the clients that they served in the last AskShares. MayMove
	// is the share of their clients that may move all the same.
	Keep    []int
	MayMove float64
}

func (a AskShares) run(w *scenarioRun) error {
	before := w.served
	w.served = make([]int, a.Clients)
	got := Weights{}
	for i := range w.served {
		c := Client{N: i}
		if a.Ports {
			c.N = 0
		}
		n, _, err := w.try(c, "", patience)
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		w.served[i] = n
		got[n]++
	}
	if err := proportional(got, a.Want, a.Clients); err != nil {
		return err
	}
	return a.kept(before, w.served)
}

// kept checks that the clients of some backends did not move.
func (a AskShares) kept(before, now []int) error {
	kept, moved := 0, 0
	for i, n := range before {
		if !slices.Contains(a.Keep, n) {
			continue
		}
		if kept++; now[i] != n {
			moved++
		}
	}
	if float64(moved) > a.MayMove*float64(kept) {
		return fmt.Errorf("%d of the %d clients of %v have moved, want %.0f %% at most", moved, kept, a.Keep, 100*a.MayMove)
	}
	return nil
}

// proportional compares numbers of clients with weights. A difference of six standard deviations is
// no chance.
func proportional(got, want Weights, clients int) error {
	total := 0
	for _, weight := range want {
		total += weight
	}
	for n := range got {
		if want[n] == 0 {
			return fmt.Errorf("clients by backend %v, want none of %d", got, n)
		}
	}
	for n, weight := range want {
		p := float64(weight) / float64(total)
		expected, deviation := p*float64(clients), math.Sqrt(float64(clients)*p*(1-p))
		if math.Abs(float64(got[n])-expected) > 6*deviation {
			return fmt.Errorf("clients by backend %v, want shares of %v: %.0f ± %.0f for %d", got, want, expected, 6*deviation, n)
		}
	}
	return nil
}
