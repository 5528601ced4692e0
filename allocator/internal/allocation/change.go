package allocation

import (
	"slices"
	"strings"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Change collects decisions: the writes for the store, and the steps that undo the decisions in
// memory. The zero value is ready to use.
type Change struct {
	steps []step
}

// step is one change to an allocation.
type step struct {
	allocation     *allocation
	newlyAllocated bool // its value had no owner before
	released       time.Time
	undo           func()
}

func (c *Change) add(s step) { c.steps = append(c.steps, s) }

// Mark returns a position to roll back to.
func (c *Change) Mark() int { return len(c.steps) }

// Rollback undoes the decisions after the mark.
func (c *Change) Rollback(mark int) {
	for i := len(c.steps) - 1; i >= mark; i-- {
		c.steps[i].undo()
	}
	c.steps = c.steps[:mark]
}

// Writes returns the net writes: each value once, as it is after its last step, in the order of the
// first steps.
func (c *Change) Writes() []store.Write {
	places := make(map[pool.Value]int, len(c.steps))
	puts := make([]store.Write, 0, len(c.steps))
	last := make([]*step, 0, len(c.steps))
	for i := range c.steps {
		s := &c.steps[i]
		at, known := places[s.allocation.value]
		if !known {
			at = len(puts)
			places[s.allocation.value] = at
			p := store.Write{ExpectedOwner: s.allocation.owner.UID}
			if s.newlyAllocated {
				p.ExpectedOwner = ""
			}
			puts, last = append(puts, p), append(last, nil)
		}
		last[at] = s
	}
	for i, s := range last {
		puts[i].Allocation = s.allocation.toStore(s.released)
	}
	return puts
}

// toStore returns an allocation in the form of the store.
func (h *allocation) toStore(released time.Time) store.Allocation {
	return store.Allocation{Value: h.value, Pool: h.pool, Owner: h.owner, Released: released, Claims: h.storedClaims()}
}

// storedClaims returns the claims on an allocation in the form of the store, ordered by slot.
func (h *allocation) storedClaims() []store.Claim {
	claims := make([]store.Claim, len(h.claims))
	for i, c := range h.claims {
		claims[i] = store.Claim{Slot: c.slot, Confirmed: c.confirmed, Since: c.since}
	}
	slices.SortFunc(claims, func(x, y store.Claim) int { return strings.Compare(x.Slot, y.Slot) })
	return claims
}
