package stores

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// position returns the present position. The caller holds mu.
func (d *Disk) position() store.Position { return d.commits[len(d.commits)-1].position }

// news returns the changes after a position. The caller holds mu.
func (d *Disk) news(seen store.Position) (store.News, error) {
	from := slices.IndexFunc(d.commits, func(c commit) bool { return c.position == seen })
	if from < 0 {
		return store.News{}, store.ErrWentBack
	}
	n := store.News{Position: d.position()}
	values, holders := map[pool.Value]bool{}, map[string]bool{}
	for _, c := range d.commits[from+1:] {
		n.PoolsChanged = n.PoolsChanged || c.pools
		for _, v := range c.values {
			values[v] = true
		}
		for _, h := range c.reserves {
			holders[h] = true
		}
	}
	if n.PoolsChanged {
		n.Pools = d.sortedPools()
	}
	for v := range values {
		if a, exists := d.allocations[v]; exists {
			n.Allocations = append(n.Allocations, a)
		} else {
			n.Free = append(n.Free, v)
		}
	}
	for h := range holders {
		r, exists := d.reserves[h]
		r.Holder = h
		n.Reserves = append(n.Reserves, store.ReserveWrite{Reserve: r, Removed: !exists})
	}
	return n, nil
}

// apply stores a batch, or nothing. The caller holds mu.
func (d *Disk) apply(b store.Batch) error {
	before := map[pool.Value]store.Allocation{}
	for _, w := range b.Writes {
		a, exists := d.allocations[w.Value]
		if exists && a.Released.IsZero() && a.Owner.UID != w.ExpectedOwner {
			return &store.ConflictError{Value: w.Value}
		}
		if exists {
			before[w.Value] = a
		}
	}
	for _, w := range b.Pools {
		if w.Removed && !d.removable(w.Name) {
			return store.ErrPoolInUse
		}
	}
	if d.OnApply != nil {
		d.OnApply(before, b.Writes)
	}
	last := d.position()
	c := commit{position: store.Position{Version: last.Version + 1, Mark: marks.Add(1)}}
	for _, w := range b.Pools {
		c.pools = true
		c.values = append(c.values, d.applyPool(w)...)
	}
	for _, w := range b.Writes {
		c.values = append(c.values, w.Value)
		d.allocations[w.Value] = w.Allocation
	}
	for _, w := range b.Reserves {
		c.reserves = append(c.reserves, w.Holder)
		if d.reserves[w.Holder] = w.Reserve; w.Removed {
			delete(d.reserves, w.Holder)
		}
	}
	d.commits = append(d.commits, c)
	return nil
}

func (d *Disk) removable(name string) bool {
	_, exists := d.pools[name]
	for _, a := range d.allocations {
		if a.Pool == name && a.Released.IsZero() {
			return false
		}
	}
	return exists
}

// applyPool stores a pool, or removes it with its values at rest, which it returns.
func (d *Disk) applyPool(w store.PoolWrite) (freed []pool.Value) {
	if !w.Removed {
		d.pools[w.Name] = w.Pool
		return nil
	}
	delete(d.pools, w.Name)
	for v, a := range d.allocations {
		if a.Pool == w.Name {
			delete(d.allocations, v)
			freed = append(freed, v)
		}
	}
	return freed
}

func (d *Disk) sortedPools() []store.Pool {
	return slices.SortedFunc(maps.Values(d.pools), func(a, b store.Pool) int { return strings.Compare(a.Name, b.Name) })
}

// sortedAllocations returns all allocations, sorted by pool and value.
func (d *Disk) sortedAllocations() []store.Allocation {
	return slices.SortedFunc(maps.Values(d.allocations), func(a, b store.Allocation) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), bytes.Compare(a.Value.Key(), b.Value.Key()))
	})
}
