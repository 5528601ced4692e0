package allocation

import (
	"slices"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Update changes the table by the batches that other processes have stored. If it returns an error, the
// table is not usable any more.
//
// All values in the news are forgotten first, and then restored as they are now. So a value may have
// moved to another pool if the same news change the range of that pool.
func (t *Table) Update(n store.News, now time.Time) error {
	for _, h := range n.Allocations {
		t.forget(h.Value)
	}
	for _, v := range n.Free {
		t.forget(v)
	}
	if n.PoolsChanged {
		if err := t.setPools(n.Pools, now); err != nil {
			return err
		}
	}
	for _, h := range n.Allocations {
		if err := t.Restore(h); err != nil {
			return err
		}
	}
	for _, w := range n.Reserves {
		if w.Removed {
			delete(t.reserves, w.Holder)
		} else {
			t.RestoreReserve(w.Reserve)
		}
	}
	return nil
}

// forget makes a value free. If the value has an owner, its claims are removed.
func (t *Table) forget(v pool.Value) {
	if h := t.values[v]; h != nil {
		for _, c := range slices.Clone(h.claims) {
			t.unlink(c)
		}
		if h.reserved != nil {
			t.delist(h)
		}
		delete(t.values, v)
	}
	for _, e := range t.pools {
		e.values.Free(v)
	}
}

// setPools adds, changes and removes pools.
func (t *Table) setPools(pools []store.Pool, now time.Time) error {
	for _, e := range slices.Clone(t.pools) {
		if !slices.ContainsFunc(pools, func(p store.Pool) bool { return p.Name == e.Name }) {
			t.RemovePool(e.Name)
		}
	}
	for _, p := range pools {
		if e := t.pool(p.Name); e != nil && e.Pool == p {
			continue
		}
		if err := t.PutPool(p, now); err != nil {
			return err
		}
	}
	return nil
}
