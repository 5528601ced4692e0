package book

import (
	"slices"
	"strings"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Change collects what was decided: what the store must write, and how to take
// the decision back in memory. The zero value is ready to use.
type Change struct {
	steps []step
}

// step is one thing that was done to a holding.
type step struct {
	of       *holding
	fresh    bool // its value belonged to nobody before
	released time.Time
	undo     func()
}

func (c *Change) add(s step) { c.steps = append(c.steps, s) }

// Mark is a place to roll back to.
func (c *Change) Mark() int { return len(c.steps) }

// Rollback takes back what was decided after the mark.
func (c *Change) Rollback(mark int) {
	for i := len(c.steps) - 1; i >= mark; i-- {
		c.steps[i].undo()
	}
	c.steps = c.steps[:mark]
}

// Puts is what all of it amounts to: each value once, as it is after its last
// step, in the order of their first ones.
func (c *Change) Puts() []store.Put {
	places := make(map[pool.Value]int, len(c.steps))
	puts := make([]store.Put, 0, len(c.steps))
	last := make([]*step, 0, len(c.steps))
	for i := range c.steps {
		s := &c.steps[i]
		at, known := places[s.of.value]
		if !known {
			at = len(puts)
			places[s.of.value] = at
			p := store.Put{From: s.of.owner.UID}
			if s.fresh {
				p.From = ""
			}
			puts, last = append(puts, p), append(last, nil)
		}
		last[at] = s
	}
	for i, s := range last {
		puts[i].Holding = s.of.stored(s.released)
	}
	return puts
}

// stored is a holding as the store keeps it.
func (h *holding) stored(released time.Time) store.Holding {
	return store.Holding{Value: h.value, Pool: h.pool, Owner: h.owner, Released: released, Claims: h.storedClaims()}
}

// storedClaims are the claims on a holding as the store keeps them, by slot.
func (h *holding) storedClaims() []store.Claim {
	claims := make([]store.Claim, len(h.claims))
	for i, c := range h.claims {
		claims[i] = store.Claim{Slot: c.slot, Confirmed: c.confirmed, Since: c.since}
	}
	slices.SortFunc(claims, func(x, y store.Claim) int { return strings.Compare(x.Slot, y.Slot) })
	return claims
}
