package allocation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const (
	// Lease is the longest time between two calls of the holder of a reserve. Afterwards the reserve is
	// closed.
	Lease = 30 * time.Second
	// maxPoolShare is the largest number of values of a pool in one reserve.
	maxPoolShare = 1024
	// poolParts is the number of equal parts of a pool's upper band. A reserve gets at most one part.
	poolParts = 16
)

// Slots of the claims by which a value of a reserve is stored.
const (
	grantSlot    = "grant/" // the number of the grant follows
	recalledSlot = "recalled"
	releasedSlot = "released/" // the UID of the deleted object follows
)

// reserve is the reserve of a registry process.
type reserve struct {
	store.Reserve
	values map[pool.Value]*allocation
	inPool map[string]uint64 // number of values by pool
}

// reservation is the place of a value in a reserve.
type reservation struct {
	reserve  *reserve
	grant    uint64    // number of the grant
	granted  time.Time // time of the grant
	recalled time.Time // time at which the value was recalled; zero: the holder may keep it
	// released is the UID of an object that had the value and was deleted before the holder settled it.
	released string
}

// ReservedValue is a value of a reserve, with the number of the grant by which the holder got it.
type ReservedValue struct {
	Value pool.Value
	Grant uint64
}

func newReserve(r store.Reserve) *reserve {
	return &reserve{Reserve: r, values: map[pool.Value]*allocation{}, inPool: map[string]uint64{}}
}

// owner returns the owner of the values of a reserve.
func (r *reserve) owner() store.Owner {
	return store.Owner{UID: r.Holder, Kind: store.KindReserve, Name: r.Holder}
}

// RestoreReserve adds a stored reserve.
func (t *Table) RestoreReserve(r store.Reserve) { t.restoredReserve(r.Holder).Reserve = r }

// restoredReserve returns the reserve of a holder. If its row was not read yet, it adds a reserve that was
// never renewed.
func (t *Table) restoredReserve(holder string) *reserve {
	r := t.reserves[holder]
	if r == nil {
		r = newReserve(store.Reserve{Holder: holder})
		t.reserves[holder] = r
	}
	return r
}

// Reserves returns the reserves, ordered by holder.
func (t *Table) Reserves() []store.Reserve {
	all := make([]store.Reserve, 0, len(t.reserves))
	for _, r := range t.reserves {
		all = append(all, r.Reserve)
	}
	slices.SortFunc(all, func(x, y store.Reserve) int { return strings.Compare(x.Holder, y.Holder) })
	return all
}

var errReserved = errors.New("want the claim grant/NUMBER")

// restoreReserved adds a stored value of a reserve.
func (t *Table) restoreReserved(h *allocation, claims []store.Claim) error {
	h.reserved = &reservation{reserve: t.restoredReserve(h.owner.UID)}
	granted := false
	for _, c := range claims {
		if uid, ok := strings.CutPrefix(c.Slot, releasedSlot); ok {
			h.reserved.released = uid
		} else if number, ok := strings.CutPrefix(c.Slot, grantSlot); ok {
			n, err := strconv.ParseUint(number, 10, 64)
			granted = err == nil
			h.reserved.grant, h.reserved.granted = n, c.Since
		} else {
			h.reserved.recalled = c.Since
		}
	}
	if !granted {
		return fmt.Errorf("value %s of reserve %s: %w", h.value, h.owner.UID, errReserved)
	}
	t.values[h.value] = h
	t.enlist(h)
	return nil
}

// reservedClaims returns the claims by which a value of a reserve is stored. They count as confirmed,
// so that an allocator of a version without reserves leaves the value alone.
func (h *allocation) reservedClaims() []store.Claim {
	claims := []store.Claim{{Slot: grantSlot + strconv.FormatUint(h.reserved.grant, 10), Confirmed: true, Since: h.reserved.granted}}
	if !h.reserved.recalled.IsZero() {
		claims = append(claims, store.Claim{Slot: recalledSlot, Confirmed: true, Since: h.reserved.recalled})
	}
	if h.reserved.released != "" {
		claims = append(claims, store.Claim{Slot: releasedSlot + h.reserved.released, Confirmed: true, Since: h.reserved.recalled})
	}
	return claims
}

// enlist adds a value to its reserve and to the counts.
func (t *Table) enlist(h *allocation) {
	h.reserved.reserve.values[h.value] = h
	h.reserved.reserve.inPool[h.pool]++
	t.pool(h.pool).countReserved(h.value, 1)
}

// delist removes a value from its reserve and from the counts.
func (t *Table) delist(h *allocation) {
	delete(h.reserved.reserve.values, h.value)
	if h.reserved.reserve.inPool[h.pool]--; h.reserved.reserve.inPool[h.pool] == 0 {
		delete(h.reserved.reserve.inPool, h.pool)
	}
	t.pool(h.pool).countReserved(h.value, -1)
}

// reservedCount is the number of values of a pool that are in reserves, and how many of them are of the
// lower band. There are such values only if the band has grown since they were granted.
type reservedCount struct{ all, lower uint64 }

// countReserved adds n, which is 1 or -1, to the number of values in reserves.
func (e *poolState) countReserved(v pool.Value, n int) {
	e.reserved.all += uint64(n)
	if i, _ := e.values.Space().Index(v); i < e.values.Band() {
		e.reserved.lower += uint64(n)
	}
}

// recountReserved counts the values of a pool that are in reserves, after the pool got another range.
func (t *Table) recountReserved(e *poolState) {
	e.reserved = reservedCount{}
	for _, r := range t.reserves {
		for v, h := range r.values {
			if h.pool == e.Name {
				e.countReserved(v, 1)
			}
		}
	}
}

// reservedIn returns the allocation of a value if it is in a reserve under a grant, and nil otherwise.
func (t *Table) reservedIn(holder string, v ReservedValue) *allocation {
	r := t.reserves[holder]
	if r == nil {
		return nil
	}
	h := r.values[v.Value]
	if h == nil || h.reserved.grant != v.Grant {
		return nil
	}
	return h
}

// share returns the largest number of values of a pool in one reserve.
func (e *poolState) share() uint64 {
	return min(maxPoolShare, (e.values.Space().Size()-e.values.Band())/poolParts)
}

// isRoomy reports whether values of a pool may be in reserves: the upper band has more free values than
// twice the shares of all reserves. Values in reserves count as free here, so that the answer does not
// change when a value is granted or returned.
func (t *Table) isRoomy(e *poolState, now time.Time) bool {
	shares := e.share() * uint64(len(t.reserves))
	upper := e.values.UpperFree(now) + e.reserved.all - e.reserved.lower
	return e.State == allocatorv1.PoolState_POOL_STATE_ACTIVE && e.share() > 0 && upper > 2*shares
}

// begin adds a reserve.
func (t *Table) begin(now time.Time, holder string, c *Change) *reserve {
	r := newReserve(store.Reserve{Holder: holder, Renewed: now})
	t.reserves[holder] = r
	c.add(step{reserve: r, undo: func() { delete(t.reserves, holder) }})
	return r
}

// end removes a reserve that has no values any more.
func (t *Table) end(r *reserve, c *Change) {
	delete(t.reserves, r.Holder)
	c.add(step{reserve: r, ended: true, undo: func() { t.reserves[r.Holder] = r }})
}

// set changes the row of a reserve.
func (r *reserve) set(row store.Reserve, c *Change) {
	before := r.Reserve
	r.Reserve = row
	c.add(step{reserve: r, undo: func() { r.Reserve = before }})
}

// renew records that the holder has called. It does so only after a third of the lease, because it costs a
// write.
func (r *reserve) renew(now time.Time, c *Change) {
	if age := now.Sub(r.Renewed); age >= 0 && age < Lease/3 {
		return
	}
	row := r.Reserve
	row.Renewed = now
	r.set(row, c)
}

// handOver gives a value of a reserve to an owner.
func (t *Table) handOver(now time.Time, h *allocation, owner store.Owner, slot string, confirmed bool, c *Change) {
	fresh := newAllocation(h.value, t.pool(h.pool), owner)
	got := &claim{slot: intern(slot), allocation: fresh, confirmed: confirmed, since: now}
	t.delist(h)
	t.values[h.value] = fresh
	t.link(got)
	c.add(step{allocation: fresh, previous: h, undo: func() {
		t.unlink(got)
		t.values[h.value] = h
		t.enlist(h)
	}})
}

// giveBack takes a value out of its reserve. If it must rest it is not granted again for a while;
// otherwise it is free at once, because no object can have had it.
func (t *Table) giveBack(now time.Time, h *allocation, rests bool, c *Change) {
	e := t.pool(h.pool)
	delete(t.values, h.value)
	t.delist(h)
	released := now
	if rests {
		e.values.Release(h.value, now)
	} else {
		e.values.Free(h.value)
		released = now.Add(-t.rest) // its rest is over
	}
	c.add(step{allocation: h, released: released, undo: func() {
		if err := e.values.Allocate(h.value); err != nil {
			panic("allocation: a value that was given back is not to be had: " + err.Error())
		}
		t.values[h.value] = h
		t.enlist(h)
	}})
}

// Recall asks the holder of a value to return it. Values that are in no reserve are ignored.
func (t *Table) Recall(now time.Time, v pool.Value, c *Change) {
	h := t.values[v]
	if h == nil || h.reserved == nil || !h.reserved.recalled.IsZero() {
		return
	}
	h.reserved.recalled = now
	c.add(step{allocation: h, undo: func() { h.reserved.recalled = time.Time{} }})
}

// ReleaseReserved notes that an object with these values was deleted. Some of the values may be in
// reserves because their holders have not settled them yet. ReleaseReserved recalls these: a holder settles
// the value, which then rests, or returns it if no object has it any more. It returns the values that were
// in a reserve.
//
// To take the values out of the reserves at once would be wrong if the release is late: the holder may
// have got the value again since then, and would give it to an object that the table does not know.
func (t *Table) ReleaseReserved(now time.Time, uid string, values []pool.Value, c *Change) []pool.Value {
	var released []pool.Value
	for _, v := range values {
		h := t.values[v]
		if h == nil || h.reserved == nil || h.reserved.released == uid {
			continue
		}
		t.Recall(now, v, c)
		before := h.reserved.released
		h.reserved.released = uid
		c.add(step{allocation: h, undo: func() { h.reserved.released = before }})
		released = append(released, v)
	}
	return released
}

// ReservedOutside returns the values of a pool that are in reserves and not in a range. For the empty range
// it returns all values of the pool that are in reserves.
func (t *Table) ReservedOutside(name string, space pool.Space) []pool.Value {
	var outside []pool.Value
	for _, r := range t.reserves {
		for v, h := range r.values {
			if h.pool != name {
				continue
			}
			if _, inside := space.Index(v); space.Size() == 0 || !inside {
				outside = append(outside, v)
			}
		}
	}
	return outside
}

func compareReserved(x, y ReservedValue) int { return bytes.Compare(x.Value.Key(), y.Value.Key()) }
