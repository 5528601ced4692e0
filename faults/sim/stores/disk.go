package stores

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
	"portolan.dev/faults/sim/netem"
)

// Disk stores the pools and allocations of an allocator. It is safe for concurrent use.
type Disk struct {
	// OnApply, if not nil, is called with the writes of each commit before they take effect. before
	// has the present allocations of the values in the writes.
	OnApply func(before map[pool.Value]store.Allocation, writes []store.Write)

	emulator *netem.Emulator

	mu          sync.Mutex
	pools       map[string]store.Pool
	allocations map[pool.Value]store.Allocation
}

// NewDisk returns an empty disk. If emulator is nil, there are no delays and losses.
func NewDisk(emulator *netem.Emulator) *Disk {
	return &Disk{emulator: emulator, pools: map[string]store.Pool{}, allocations: map[pool.Value]store.Allocation{}}
}

// Allocations returns the allocations on the disk that are not released, by value.
func (d *Disk) Allocations() map[string]store.Allocation {
	d.mu.Lock()
	defer d.mu.Unlock()
	used := map[string]store.Allocation{}
	for v, a := range d.allocations {
		if a.Released.IsZero() {
			used[v.String()] = a
		}
	}
	return used
}

// Copy returns a backup: a disk with the same content.
func (d *Disk) Copy() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{emulator: d.emulator, pools: maps.Clone(d.pools), allocations: maps.Clone(d.allocations)}
}

// Restore replaces the content of the disk with a backup. No allocator may have the disk open.
func (d *Disk) Restore(backup *Disk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pools, d.allocations = maps.Clone(backup.pools), maps.Clone(backup.allocations)
}

// File gives one process of the allocator access to the disk. It implements store.Store.
type File struct {
	link
	disk *Disk

	mu   sync.Mutex
	dead bool
}

var _ store.Store = (*File)(nil)

// Open opens the disk for the allocator with the given name. The name of the link is "disk " and
// the allocator's name.
func (d *Disk) Open(name string) *File {
	return &File{disk: d, link: link{d.emulator, "disk " + name}}
}

// Kill makes all further writes fail, as if the allocator's process had died.
func (f *File) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

var errDisk = errors.New("input/output error")

// write executes a change with the delays of the link. It returns an error if the request or the
// reply is lost. If only the reply is lost, the change has taken effect.
func (f *File) write(ctx context.Context, change func() error) error {
	request, reply := f.next(), f.next()
	if !sleep(ctx, request.Delay) {
		return ctx.Err()
	}
	if request.Lost {
		return errDisk
	}
	if err := f.execute(change); err != nil {
		return err
	}
	if reply.Lost || !sleep(ctx, reply.Delay) {
		return errDisk
	}
	return nil
}

func (f *File) execute(change func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return errDisk
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return change()
}

// Apply implements store.Store.
func (f *File) Apply(ctx context.Context, writes []store.Write) error {
	return f.write(ctx, func() error {
		before := map[pool.Value]store.Allocation{}
		for _, w := range writes {
			a, exists := f.disk.allocations[w.Value]
			if exists && a.Released.IsZero() && a.Owner.UID != w.ExpectedOwner {
				return &store.ConflictError{Value: w.Value}
			}
			if exists {
				before[w.Value] = a
			}
		}
		if f.disk.OnApply != nil {
			f.disk.OnApply(before, writes)
		}
		for _, w := range writes {
			f.disk.allocations[w.Value] = w.Allocation
		}
		return nil
	})
}

// DeleteExpired implements store.Store.
func (f *File) DeleteExpired(ctx context.Context, t time.Time) error {
	return f.write(ctx, func() error {
		maps.DeleteFunc(f.disk.allocations, func(_ pool.Value, a store.Allocation) bool {
			return !a.Released.IsZero() && a.Released.Before(t)
		})
		return nil
	})
}

// CreatePool implements store.Store.
func (f *File) CreatePool(ctx context.Context, p store.Pool) error {
	return f.write(ctx, func() error {
		if _, exists := f.disk.pools[p.Name]; exists {
			return store.ErrPoolExists
		}
		f.disk.pools[p.Name] = p
		return nil
	})
}

// UpdatePool implements store.Store.
func (f *File) UpdatePool(ctx context.Context, p store.Pool) error {
	return f.write(ctx, func() error {
		if _, exists := f.disk.pools[p.Name]; !exists {
			return store.ErrPoolNotFound
		}
		f.disk.pools[p.Name] = p
		return nil
	})
}

// DeletePool implements store.Store.
func (f *File) DeletePool(ctx context.Context, name string) error {
	return f.write(ctx, func() error {
		if _, exists := f.disk.pools[name]; !exists {
			return store.ErrPoolNotFound
		}
		for _, a := range f.disk.allocations {
			if a.Pool == name && a.Released.IsZero() {
				return store.ErrPoolInUse
			}
		}
		maps.DeleteFunc(f.disk.allocations, func(_ pool.Value, a store.Allocation) bool { return a.Pool == name })
		delete(f.disk.pools, name)
		return nil
	})
}

// Pools implements store.Store.
func (f *File) Pools(context.Context) ([]store.Pool, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.disk.pools), func(a, b store.Pool) int { return strings.Compare(a.Name, b.Name) }), nil
}

// all returns all allocations, sorted by pool and value.
func (f *File) all() []store.Allocation {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.disk.allocations), func(a, b store.Allocation) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), bytes.Compare(a.Value.Key(), b.Value.Key()))
	})
}

// Load implements store.Store.
func (f *File) Load(_ context.Context, fn func(store.Allocation) error) error {
	for _, a := range f.all() {
		if err := fn(a); err != nil {
			return err
		}
	}
	return nil
}

// List implements store.Store.
func (f *File) List(_ context.Context, q store.Query) ([]store.Allocation, error) {
	var after []byte
	if q.AfterValue != (pool.Value{}) {
		after = q.AfterValue.Key()
	}
	var found []store.Allocation
	for _, a := range f.all() {
		beyond := cmp.Or(strings.Compare(a.Pool, q.AfterPool), bytes.Compare(a.Value.Key(), after)) > 0
		if beyond && (q.Pool == "" || q.Pool == a.Pool) && len(found) < q.Limit {
			found = append(found, a)
		}
	}
	return found, nil
}

// Close implements store.Store.
func (*File) Close() error { return nil }
