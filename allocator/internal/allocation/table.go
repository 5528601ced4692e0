package allocation

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Table holds all values in use with their owners and claims.
type Table struct {
	rest   time.Duration
	pools  []*poolState // ordered by name
	values map[pool.Value]*allocation
	owners map[string][]*claim // by UID; ordered by slot, and then by compareClaims

	reserves map[string]*reserve // by holder
}

// poolState is a pool and its values.
type poolState struct {
	store.Pool
	values   *pool.Pool // values in reserves count as used here
	reserved reservedCount
}

// allocation is a value in use or in a reserve.
type allocation struct {
	value    pool.Value
	pool     string
	owner    store.Owner
	claims   []*claim
	reserved *reservation // nil: in use. Values in reserves have no claims.
}

// newAllocation returns an allocation without claims. Texts that many allocations have in common are
// shared, because a pool may have a million of them.
func newAllocation(v pool.Value, e *poolState, owner store.Owner) *allocation {
	owner.Kind, owner.Namespace = intern(owner.Kind), intern(owner.Namespace)
	return &allocation{value: v, pool: e.Name, owner: owner}
}

// intern returns a text that is shared with all others that are equal.
func intern(text string) string { return unique.Make(text).Value() }

// claim is a slot that has a value.
type claim struct {
	slot       string
	allocation *allocation
	confirmed  bool
	since      time.Time
}

// New returns a table of these pools without allocations. A released value rests for the duration
// rest.
func New(pools []store.Pool, rest time.Duration) (*Table, error) {
	b := &Table{rest: rest, values: map[pool.Value]*allocation{}, owners: map[string][]*claim{}, reserves: map[string]*reserve{}}
	for _, p := range pools {
		space, err := p.Space()
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.Name, err)
		}
		b.pools = append(b.pools, &poolState{Pool: p, values: pool.New(space, p.Band, rest)})
	}
	b.sortPools()
	return b, nil
}

func (t *Table) sortPools() {
	slices.SortFunc(t.pools, func(x, y *poolState) int { return strings.Compare(x.Name, y.Name) })
}

// Restore adds a stored allocation.
func (t *Table) Restore(h store.Allocation) error {
	e := t.pool(h.Pool)
	if e == nil {
		return fmt.Errorf("value %s is of pool %q, which does not exist", h.Value, h.Pool)
	}
	if err := e.values.Allocate(h.Value); err != nil {
		return fmt.Errorf("value %s of pool %q: %w", h.Value, h.Pool, err)
	}
	if !h.Released.IsZero() {
		e.values.Release(h.Value, h.Released)
		return nil
	}
	held := newAllocation(h.Value, e, h.Owner)
	if h.Owner.Kind == store.KindReserve {
		return t.restoreReserved(held, h.Claims)
	}
	t.values[h.Value] = held
	for _, c := range h.Claims {
		t.link(&claim{slot: intern(c.Slot), allocation: held, confirmed: c.Confirmed, since: c.Since})
	}
	return nil
}

func (t *Table) pool(name string) *poolState {
	i, ok := slices.BinarySearchFunc(t.pools, name, func(e *poolState, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil
	}
	return t.pools[i]
}

// link adds a claim to its owner and its allocation.
func (t *Table) link(c *claim) {
	uid := c.allocation.owner.UID
	all := t.owners[uid]
	at, _ := slices.BinarySearchFunc(all, c, func(x, c *claim) int {
		return cmp.Or(strings.Compare(x.slot, c.slot), compareClaims(x, c), -1) // after its equals
	})
	t.owners[uid] = slices.Insert(all, at, c)
	c.allocation.claims = append(c.allocation.claims, c)
}

// claimsOf returns the claims of an owner's slot. The last claim is the current one. The result is
// valid until the owner's claims change.
func (t *Table) claimsOf(uid, slot string) []*claim {
	all := t.owners[uid]
	from, _ := slices.BinarySearchFunc(all, slot, func(x *claim, slot string) int { return strings.Compare(x.slot, slot) })
	to := from
	for to < len(all) && all[to].slot == slot {
		to++
	}
	return all[from:to]
}

// compareClaims orders confirmed claims before held ones, and then by age.
func compareClaims(x, y *claim) int {
	switch {
	case x.confirmed == y.confirmed:
		return x.since.Compare(y.since)
	case x.confirmed:
		return -1
	default:
		return 1
	}
}

func (t *Table) unlink(c *claim) {
	uid := c.allocation.owner.UID
	c.allocation.claims = slices.DeleteFunc(c.allocation.claims, func(x *claim) bool { return x == c })
	all := t.owners[uid]
	if len(all) == 1 {
		delete(t.owners, uid)
		return
	}
	at := slices.Index(all, c)
	t.owners[uid] = slices.Delete(all, at, at+1)
}

// claim returns the claim of a slot on a value, or nil.
func (t *Table) claim(uid, slot string, v pool.Value) *claim {
	for _, c := range t.claimsOf(uid, slot) {
		if c.allocation.value == v {
			return c
		}
	}
	return nil
}

// slots returns the slots of an owner in order.
func (t *Table) slots(uid string) []string {
	var slots []string
	for _, c := range t.owners[uid] {
		if len(slots) == 0 || slots[len(slots)-1] != c.slot {
			slots = append(slots, c.slot)
		}
	}
	return slots
}

// PoolStatus is a pool with its fill level. StaticSize is the number of values of the static band, of all
// protocols together, and StaticUsed the number of them that are in use. Values in reserves are not in use.
type PoolStatus struct {
	store.Pool
	Size, Used, StaticSize, StaticUsed, Resting, Reserved uint64
	// Avoided is the number of free values that Pick never returns; a claim gets one by naming it.
	Avoided uint64
}

// Pools returns the pools with their fill levels, ordered by name.
func (t *Table) Pools(now time.Time) []PoolStatus {
	fills := make([]PoolStatus, len(t.pools))
	for i, e := range t.pools {
		fills[i] = e.status(now)
	}
	return fills
}

func (e *poolState) status(now time.Time) PoolStatus {
	size, span := e.values.Space().Size(), e.values.Space().Span()
	return PoolStatus{
		Pool: e.Pool, Size: size, Used: e.values.Used() - e.reserved.all, Resting: e.values.Resting(now), Reserved: e.reserved.all,
		StaticSize: e.values.Band() * (size / span), StaticUsed: e.values.LowerUsed() - e.reserved.lower,
		Avoided: e.values.Avoided(),
	}
}

// Allocation is a value in use or in a reserve, with its owner and claims.
type Allocation struct {
	Value  pool.Value
	Pool   string
	Use    allocatorv1.Use
	Owner  store.Owner
	Claims []store.Claim
	Grant  uint64 // number of the grant, of a value in a reserve
}

// Each calls fn for every value in use or in a reserve, in any order.
func (t *Table) Each(fn func(Allocation)) {
	for _, h := range t.values {
		fn(t.toAllocation(h))
	}
}

// ListBy returns the allocations of an owner, or of the holder of a reserve, that match the query.
// Values at rest have no owner and are not included.
func (t *Table) ListBy(uid string, q store.Query) []store.Allocation {
	mine := map[*allocation]bool{}
	for _, c := range t.owners[uid] {
		mine[c.allocation] = true
	}
	if r := t.reserves[uid]; r != nil {
		for _, h := range r.values {
			mine[h] = true
		}
	}
	var found []store.Allocation
	for held := range mine {
		h := held.toStore(time.Time{})
		if (q.Pool == "" || q.Pool == h.Pool) && comparePositions(h.Pool, h.Value, q.AfterPool, q.AfterValue) > 0 {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(x, y store.Allocation) int { return comparePositions(x.Pool, x.Value, y.Pool, y.Value) })
	return found[:min(len(found), q.Limit)]
}

// comparePositions compares in the order of the store: by pool, then by value.
func comparePositions(poolX string, x pool.Value, poolY string, y pool.Value) int {
	return cmp.Or(strings.Compare(poolX, poolY), bytes.Compare(x.Key(), y.Key()))
}

// OwnerOf returns the owner of a value, and whether it has one.
func (t *Table) OwnerOf(v pool.Value) (store.Owner, bool) {
	h := t.values[v]
	if h == nil {
		return store.Owner{}, false
	}
	return h.owner, true
}

// AllocationOf returns the allocation of a value, and whether it has one.
func (t *Table) AllocationOf(v pool.Value) (Allocation, bool) {
	h := t.values[v]
	if h == nil {
		return Allocation{}, false
	}
	return t.toAllocation(h), true
}

// RestingSince returns since when a value rests, and whether it does.
func (t *Table) RestingSince(v pool.Value) (time.Time, bool) {
	for _, e := range t.pools {
		if since, rests := e.values.RestingSince(v); rests {
			return since, true
		}
	}
	return time.Time{}, false
}

func (t *Table) toAllocation(h *allocation) Allocation {
	held := Allocation{Value: h.value, Pool: h.pool, Owner: h.owner, Claims: h.storedClaims()}
	if h.reserved != nil {
		held.Grant = h.reserved.grant
	}
	if e := t.pool(h.pool); e != nil {
		held.Use = e.Use
	}
	return held
}
