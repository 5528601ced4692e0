package book

import (
	"slices"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Confirm confirms the newest value of each slot and releases the slot's earlier values. Without
// slots it confirms all slots of the owner. It returns how many slots have a confirmed value now,
// and the slots that the owner does not have.
func (b *Book) Confirm(now time.Time, uid string, slots []string, c *Change) (confirmed int, unknown []string) {
	if len(slots) == 0 {
		if slots = b.slots(uid); len(slots) == 0 {
			return 0, []string{uid + "/"}
		}
	}
	for _, slot := range slots {
		has := slices.Clone(b.owners[uid][slot])
		if len(has) == 0 {
			unknown = append(unknown, uid+"/"+slot)
			continue
		}
		newest := has[len(has)-1]
		for _, old := range has[:len(has)-1] {
			b.drop(now, old, c)
		}
		b.confirm(newest, c)
		confirmed++
	}
	return confirmed, unknown
}

func (b *Book) confirm(has *claim, c *Change) {
	if has.confirmed {
		return
	}
	has.confirmed = true
	c.add(step{of: has.of, undo: func() { has.confirmed = false }})
}

// Release releases the unconfirmed values of a slot that also has a confirmed one, and otherwise
// all values of the slot. Without slots it releases all values of the owner. Slots that the owner
// does not have are ignored. It returns the values that no longer have an owner.
func (b *Book) Release(now time.Time, uid string, slots []string, c *Change) []pool.Value {
	all := len(slots) == 0
	if all {
		slots = b.slots(uid)
	}
	var freed []pool.Value
	for _, slot := range slots {
		has := slices.Clone(b.owners[uid][slot])
		if !all && len(has) > 1 {
			has = slices.DeleteFunc(has, func(x *claim) bool { return x.confirmed })
		}
		for _, x := range has {
			if b.drop(now, x, c) {
				freed = append(freed, x.of.value)
			}
		}
	}
	return freed
}

// Reclaim removes all claims on a value if its holding has not changed since it was seen: it has
// the same owner, and no claim was made or renewed. It reports whether it did.
func (b *Book) Reclaim(now time.Time, seen Held, c *Change) bool {
	h := b.values[seen.Value]
	if h == nil || h.owner.UID != seen.Owner.UID || !slices.EqualFunc(h.storedClaims(), seen.Claims, sameClaim) {
		return false
	}
	for _, x := range slices.Clone(h.claims) {
		b.drop(now, x, c)
	}
	return true
}

func sameClaim(x, y store.Claim) bool {
	return x.Slot == y.Slot && x.Confirmed == y.Confirmed && x.Since.Equal(y.Since)
}

// drop removes a claim, and frees its value if it was the last claim. It reports whether the value
// is free now.
func (b *Book) drop(now time.Time, x *claim, c *Change) bool {
	h := x.of
	b.unlink(x)
	if len(h.claims) > 0 {
		c.add(step{of: h, undo: func() { b.link(x) }})
		return false
	}
	delete(b.values, h.value)
	e := b.pool(h.pool)
	e.values.Release(h.value, now)
	c.add(step{of: h, released: now, undo: func() {
		b.values[h.value] = h
		if err := e.values.Take(h.value); err != nil {
			panic("book: a value that was given back is not to be had: " + err.Error())
		}
		b.link(x)
	}})
	return true
}
