package allocation

import (
	"slices"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Confirm confirms the newest value of each slot and releases the slot's earlier values. Without
// slots it confirms all slots of the owner. It returns how many slots have a confirmed value now,
// and the slots that the owner does not have.
func (t *Table) Confirm(now time.Time, uid string, slots []string, c *Change) (confirmed int, unknown []string) {
	if len(slots) == 0 {
		if slots = t.slots(uid); len(slots) == 0 {
			return 0, []string{uid + "/"}
		}
	} else {
		slots = t.withProtocols(uid, slots)
	}
	for _, slot := range slots {
		has := slices.Clone(t.claimsOf(uid, slot))
		if len(has) == 0 {
			unknown = append(unknown, uid+"/"+slot)
			continue
		}
		newest := has[len(has)-1]
		for _, old := range has[:len(has)-1] {
			t.removeClaim(now, old, c)
		}
		t.confirm(newest, c)
		confirmed++
	}
	return confirmed, unknown
}

func (t *Table) confirm(has *claim, c *Change) {
	if has.confirmed {
		return
	}
	has.confirmed = true
	c.add(step{allocation: has.allocation, undo: func() { has.confirmed = false }})
}

// Release releases the unconfirmed values of a slot that also has a confirmed one, and otherwise
// all values of the slot. Without slots it releases all values of the owner. Slots that the owner
// does not have are ignored. It returns the values that no longer have an owner.
func (t *Table) Release(now time.Time, uid string, slots []string, c *Change) []pool.Value {
	all := len(slots) == 0
	if all {
		slots = t.slots(uid)
	} else {
		slots = t.withProtocols(uid, slots)
	}
	var freed []pool.Value
	for _, slot := range slots {
		has := slices.Clone(t.claimsOf(uid, slot))
		if !all && len(has) > 1 {
			has = slices.DeleteFunc(has, func(x *claim) bool { return x.confirmed })
		}
		for _, x := range has {
			if t.removeClaim(now, x, c) {
				freed = append(freed, x.allocation.value)
			}
		}
	}
	return freed
}

// Reclaim removes all claims on a value if its allocation has not changed since it was seen: it has
// the same owner, and no claim was made or renewed. Values in reserves stay. It reports whether it
// did.
func (t *Table) Reclaim(now time.Time, seen Allocation, c *Change) bool {
	h := t.values[seen.Value]
	if h == nil || h.reserved != nil || h.owner.UID != seen.Owner.UID || !slices.EqualFunc(h.storedClaims(), seen.Claims, sameClaim) {
		return false
	}
	for _, x := range slices.Clone(h.claims) {
		t.removeClaim(now, x, c)
	}
	return true
}

func sameClaim(x, y store.Claim) bool {
	return x.Slot == y.Slot && x.Confirmed == y.Confirmed && x.Since.Equal(y.Since)
}

// removeClaim removes a claim, and frees its value if it was the last claim. It reports whether the
// value is free now.
func (t *Table) removeClaim(now time.Time, x *claim, c *Change) bool {
	h := x.allocation
	t.unlink(x)
	if len(h.claims) > 0 {
		c.add(step{allocation: h, undo: func() { t.link(x) }})
		return false
	}
	delete(t.values, h.value)
	e := t.pool(h.pool)
	e.values.Release(h.value, now)
	c.add(step{allocation: h, released: now, undo: func() {
		t.values[h.value] = h
		if err := e.values.Allocate(h.value); err != nil {
			panic("allocation: a value that was given back is not to be had: " + err.Error())
		}
		t.link(x)
	}})
	return true
}
