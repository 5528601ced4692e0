package dataplanetest

import (
	"fmt"
	"slices"
)

// addresses is the number of frontends in scenarios with many addresses. A hash that is even gives
// all of them the same one of two backends with a probability of 1/2²³.
const addresses = 24

// address returns the name of the n-th of them.
func address(n int) string { return fmt.Sprint("address ", n) }

// everywhere returns a program with the same server at all of them.
func everywhere(s Server) Program {
	var p Program
	for i := range addresses {
		s.Frontend = address(i)
		p = append(p, s)
	}
	return p
}

// AskAddresses connects Times (default once) to each of the addresses. One backend must serve all
// connections to an address, and at least AtLeast backends must serve all addresses together.
type AskAddresses struct {
	Times   int
	AtLeast int
	Not     []int // backends that must not answer
	// Keep has the backends that must keep the addresses that they served in the last AskAddresses,
	// except with the trait Rehashes. With Sticky they must keep them in any case, because the
	// servers have affinity.
	Keep   []int
	Sticky bool
}

func (a AskAddresses) run(w *scenarioRun) error {
	before := w.served
	w.served = make([]int, addresses)
	all := Weights{}
	for i := range addresses {
		n, err := a.ask(w, address(i))
		if err != nil {
			return fmt.Errorf("address %d: %w", i, err)
		}
		w.served[i] = n
		all[n]++
		if before == nil || n == before[i] || w.traits.Rehashes && !a.Sticky {
			continue
		}
		if slices.Contains(a.Keep, before[i]) {
			return fmt.Errorf("address %d: served by %d, though %d is still there", i, n, before[i])
		}
	}
	if len(all) < a.AtLeast {
		return fmt.Errorf("served by %v, want %d backends", all, a.AtLeast)
	}
	return nil
}

// ask returns the backend of an address.
func (a AskAddresses) ask(w *scenarioRun, frontend string) (int, error) {
	first := -1
	for range max(a.Times, 1) {
		n, _, err := w.try(Client{}, frontend, patience)
		switch {
		case err != nil:
			return n, err
		case slices.Contains(a.Not, n):
			return n, fmt.Errorf("served by %d, and not by %v", n, a.Not)
		case first >= 0 && n != first:
			return n, fmt.Errorf("served by %d and %d", first, n)
		}
		first = n
	}
	return first, nil
}

// HoldAddresses opens a connection to each of the addresses and keeps it.
type HoldAddresses struct{}

func (HoldAddresses) run(w *scenarioRun) error {
	for i := range addresses {
		open := Open{Frontend: address(i), Conn: address(i), Want: w.numbers()}
		if err := open.run(w); err != nil {
			return fmt.Errorf("address %d: %w", i, err)
		}
	}
	return nil
}

// ContinueAddresses uses the connections of HoldAddresses. The same backends must answer.
type ContinueAddresses struct{}

func (ContinueAddresses) run(w *scenarioRun) error {
	for i := range addresses {
		if err := (Continue{Conn: address(i)}).run(w); err != nil {
			return fmt.Errorf("address %d: %w", i, err)
		}
	}
	return nil
}

// heldBy returns the name of a connection of HoldEach.
func heldBy(backend int) string { return fmt.Sprint("held by ", backend) }

// HoldEach connects until it has a connection to each of the backends, and keeps one for each.
type HoldEach struct{}

func (HoldEach) run(w *scenarioRun) error {
	want := w.numbers()
	for range 32 * len(want) {
		c, err := w.dial(Client{}, w.frontend("").Addr, patience)
		if err != nil {
			return err
		}
		if c.from, _, err = w.identify(c, patience); err != nil {
			c.Close()
			return err
		}
		if w.conns[heldBy(c.from)] != nil {
			c.Close()
			continue
		}
		w.conns[heldBy(c.from)] = c
		want = slices.DeleteFunc(want, func(n int) bool { return n == c.from })
		if len(want) == 0 {
			return nil
		}
	}
	return fmt.Errorf("no connection was served by %v", want)
}

// numbers returns the numbers of all backends.
func (w *scenarioRun) numbers() []int {
	numbers := make([]int, len(w.backends))
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}
