package book

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Book holds all values in use with their owners and claims.
type Book struct {
	rest   time.Duration
	pools  []*entry // ordered by name
	values map[pool.Value]*holding
	owners map[string]map[string][]*claim // by UID and slot; the last claim is the current one
}

// entry is a pool and its values.
type entry struct {
	store.Pool
	values *pool.Pool
}

// holding is a value in use.
type holding struct {
	value  pool.Value
	pool   string
	owner  store.Owner
	claims []*claim
}

// claim is a slot that has a value.
type claim struct {
	slot      string
	of        *holding
	confirmed bool
	since     time.Time
}

// New returns a book of these pools without holdings. A released value rests for the duration rest.
func New(pools []store.Pool, rest time.Duration) (*Book, error) {
	b := &Book{rest: rest, values: map[pool.Value]*holding{}, owners: map[string]map[string][]*claim{}}
	for _, p := range pools {
		space, err := pool.Parse(p.Range)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.Name, err)
		}
		b.pools = append(b.pools, &entry{Pool: p, values: pool.New(space, p.Band, rest)})
	}
	b.sort()
	return b, nil
}

func (b *Book) sort() {
	slices.SortFunc(b.pools, func(x, y *entry) int { return strings.Compare(x.Name, y.Name) })
}

// Restore adds a stored holding.
func (b *Book) Restore(h store.Holding) error {
	e := b.pool(h.Pool)
	if e == nil {
		return fmt.Errorf("value %s is of pool %q, which does not exist", h.Value, h.Pool)
	}
	if err := e.values.Take(h.Value); err != nil {
		return fmt.Errorf("value %s of pool %q: %w", h.Value, h.Pool, err)
	}
	if !h.Released.IsZero() {
		e.values.Release(h.Value, h.Released)
		return nil
	}
	held := &holding{value: h.Value, pool: h.Pool, owner: h.Owner}
	b.values[h.Value] = held
	for _, c := range h.Claims {
		b.link(&claim{slot: c.Slot, of: held, confirmed: c.Confirmed, since: c.Since})
	}
	return nil
}

func (b *Book) pool(name string) *entry {
	i, ok := slices.BinarySearchFunc(b.pools, name, func(e *entry, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil
	}
	return b.pools[i]
}

// link adds a claim to its owner and its holding.
func (b *Book) link(c *claim) {
	uid := c.of.owner.UID
	slots := b.owners[uid]
	if slots == nil {
		slots = map[string][]*claim{}
		b.owners[uid] = slots
	}
	c.of.claims = append(c.of.claims, c)
	slots[c.slot] = append(slots[c.slot], c)
	slices.SortStableFunc(slots[c.slot], older)
}

// older orders confirmed claims before held ones, and then by age.
func older(x, y *claim) int {
	switch {
	case x.confirmed == y.confirmed:
		return x.since.Compare(y.since)
	case x.confirmed:
		return -1
	default:
		return 1
	}
}

func (b *Book) unlink(c *claim) {
	uid := c.of.owner.UID
	c.of.claims = slices.DeleteFunc(c.of.claims, func(x *claim) bool { return x == c })
	slots := b.owners[uid]
	slots[c.slot] = slices.DeleteFunc(slots[c.slot], func(x *claim) bool { return x == c })
	if len(slots[c.slot]) == 0 {
		delete(slots, c.slot)
	}
	if len(slots) == 0 {
		delete(b.owners, uid)
	}
}

// claim returns the claim of a slot on a value, or nil.
func (b *Book) claim(uid, slot string, v pool.Value) *claim {
	for _, c := range b.owners[uid][slot] {
		if c.of.value == v {
			return c
		}
	}
	return nil
}

// slots returns the slots of an owner in order.
func (b *Book) slots(uid string) []string {
	return slices.Sorted(maps.Keys(b.owners[uid]))
}

// Fill is a pool with its fill level.
type Fill struct {
	store.Pool
	Size, Used, Resting uint64
}

// Pools returns the pools with their fill levels, ordered by name.
func (b *Book) Pools(now time.Time) []Fill {
	fills := make([]Fill, len(b.pools))
	for i, e := range b.pools {
		fills[i] = e.fill(now)
	}
	return fills
}

func (e *entry) fill(now time.Time) Fill {
	return Fill{Pool: e.Pool, Size: e.values.Space().Size(), Used: e.values.Used(), Resting: e.values.Resting(now)}
}

// Held is a value in use with its owner and claims.
type Held struct {
	Value  pool.Value
	Pool   string
	Use    allocatorv1.Use
	Owner  store.Owner
	Claims []store.Claim
}

// Each calls fn for every value in use, in any order.
func (b *Book) Each(fn func(Held)) {
	for _, h := range b.values {
		fn(b.held(h))
	}
}

// Holds reports whether an owner has a value.
func (b *Book) Holds(uid string, v pool.Value) bool {
	h := b.values[v]
	return h != nil && h.owner.UID == uid
}

// ListBy returns the holdings of an owner that match the query. Values at rest have no owner and
// are not included.
func (b *Book) ListBy(uid string, q store.Query) []store.Holding {
	mine := map[*holding]bool{}
	for _, claims := range b.owners[uid] {
		for _, c := range claims {
			mine[c.of] = true
		}
	}
	var found []store.Holding
	for held := range mine {
		h := held.stored(time.Time{})
		if (q.Pool == "" || q.Pool == h.Pool) && byPlace(h.Pool, h.Value, q.AfterPool, q.AfterValue) > 0 {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(x, y store.Holding) int { return byPlace(x.Pool, x.Value, y.Pool, y.Value) })
	return found[:min(len(found), q.Limit)]
}

// byPlace compares in the order of the store: by pool, then by value.
func byPlace(poolX string, x pool.Value, poolY string, y pool.Value) int {
	return cmp.Or(strings.Compare(poolX, poolY), bytes.Compare(x.Key(), y.Key()))
}

// OwnerOf returns the owner of a value, and whether it has one.
func (b *Book) OwnerOf(v pool.Value) (store.Owner, bool) {
	h := b.values[v]
	if h == nil {
		return store.Owner{}, false
	}
	return h.owner, true
}

// RestsSince returns since when a value rests, and whether it does.
func (b *Book) RestsSince(v pool.Value) (time.Time, bool) {
	for _, e := range b.pools {
		if since, rests := e.values.RestsSince(v); rests {
			return since, true
		}
	}
	return time.Time{}, false
}

func (b *Book) held(h *holding) Held {
	held := Held{Value: h.value, Pool: h.pool, Owner: h.owner, Claims: h.storedClaims()}
	if e := b.pool(h.pool); e != nil {
		held.Use = e.Use
	}
	return held
}
