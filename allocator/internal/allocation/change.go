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

// step is one change to an allocation, or to a reserve.
type step struct {
	allocation     *allocation // nil: the step changes a reserve
	newlyAllocated bool        // its value had no owner before
	previous       *allocation // the allocation of the value that this one replaces, if it had another owner
	released       time.Time

	reserve *reserve
	ended   bool // the reserve ends

	undo func()
}

// ownerBefore returns the UID of the owner that the value had before the step.
func (s *step) ownerBefore() string {
	switch {
	case s.newlyAllocated:
		return ""
	case s.previous != nil:
		return s.previous.owner.UID
	default:
		return s.allocation.owner.UID
	}
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

// Batch returns the decisions in the form of the store.
func (c *Change) Batch() store.Batch {
	return store.Batch{Writes: c.writes(), Reserves: c.reserveWrites()}
}

// FreesValues reports whether a decision has ended the use of a value, so that a request that waits
// for one may be served now.
func (c *Change) FreesValues() bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return !s.released.IsZero() })
}

// reserveWrites returns the net writes of reserves: each holder once, in the order of the first steps.
func (c *Change) reserveWrites() []store.ReserveWrite {
	places := map[string]int{}
	var writes []store.ReserveWrite
	for _, s := range c.steps {
		if s.reserve == nil {
			continue
		}
		at, known := places[s.reserve.Holder]
		if !known {
			at = len(writes)
			places[s.reserve.Holder] = at
			writes = append(writes, store.ReserveWrite{})
		}
		writes[at] = store.ReserveWrite{Reserve: s.reserve.Reserve, Removed: s.ended}
	}
	return writes
}

// writes returns the net writes: each value once, as it is after its last step, in the order of the
// first steps.
func (c *Change) writes() []store.Write {
	places := make(map[pool.Value]int, len(c.steps))
	puts := make([]store.Write, 0, len(c.steps))
	last := make([]*step, 0, len(c.steps))
	for i := range c.steps {
		s := &c.steps[i]
		if s.allocation == nil {
			continue
		}
		at, known := places[s.allocation.value]
		if !known {
			at = len(puts)
			places[s.allocation.value] = at
			puts, last = append(puts, store.Write{ExpectedOwner: s.ownerBefore()}), append(last, nil)
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
	a := store.Allocation{Value: h.value, Pool: h.pool, Owner: h.owner, Released: released}
	if released.IsZero() {
		a.Claims = h.storedClaims()
	}
	return a
}

// storedClaims returns the claims on an allocation in the form of the store, ordered by slot.
func (h *allocation) storedClaims() []store.Claim {
	if h.reserved != nil {
		return h.reservedClaims()
	}
	claims := make([]store.Claim, len(h.claims))
	for i, c := range h.claims {
		claims[i] = store.Claim{Slot: c.slot, Confirmed: c.confirmed, Since: c.since}
	}
	slices.SortFunc(claims, func(x, y store.Claim) int { return strings.Compare(x.Slot, y.Slot) })
	return claims
}
