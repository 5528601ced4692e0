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
	"sync/atomic"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
	"portolan.dev/faults/sim/netem"
)

// Disk stores the pools, allocations and reserves of allocators. It is safe for concurrent use.
type Disk struct {
	// OnApply, if not nil, is called with the writes of each commit before they take effect. before
	// has the present allocations of the values in the writes.
	OnApply func(before map[pool.Value]store.Allocation, writes []store.Write)

	emulator *netem.Emulator

	mu          sync.Mutex
	pools       map[string]store.Pool
	allocations map[pool.Value]store.Allocation
	reserves    map[string]store.Reserve
	commits     []commit // the last one led to the present state
}

// commit lists the changes of one batch.
type commit struct {
	position store.Position
	pools    bool
	values   []pool.Value
	reserves []string
}

// NewDisk returns an empty disk. If emulator is nil, there are no delays and losses.
func NewDisk(emulator *netem.Emulator) *Disk {
	return &Disk{
		emulator: emulator, pools: map[string]store.Pool{}, allocations: map[pool.Value]store.Allocation{}, reserves: map[string]store.Reserve{},
		commits: []commit{{position: store.Position{Version: 1, Mark: marks.Add(1)}}},
	}
}

// marks makes the marks of positions unique, so that a run can be repeated exactly.
var marks atomic.Int64

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
	return &Disk{
		emulator: d.emulator, pools: maps.Clone(d.pools), allocations: maps.Clone(d.allocations), reserves: maps.Clone(d.reserves),
		commits: slices.Clone(d.commits),
	}
}

// Restore replaces the content of the disk with a backup. An allocator that has the disk open finds
// that it went back.
func (d *Disk) Restore(backup *Disk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pools, d.allocations, d.reserves = maps.Clone(backup.pools), maps.Clone(backup.allocations), maps.Clone(backup.reserves)
	d.commits = slices.Clone(backup.commits)
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

// Transact implements store.Store. The disk decides and stores at one moment; the delays of the link
// come before and after it.
func (f *File) Transact(ctx context.Context, seen store.Position, decide func(store.News) (store.Batch, error)) (at store.Position, err error) {
	err = f.write(ctx, func() error {
		n, err := f.disk.news(seen)
		if err != nil {
			return err
		}
		b, err := decide(n)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if !b.Empty() {
			err = f.disk.apply(b)
		}
		at = f.disk.position()
		return err
	})
	if err != nil {
		return seen, err
	}
	return at, nil
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

// Restore implements store.Store.
func (f *File) Restore(ctx context.Context, seen store.Position, content store.Snapshot) error {
	fresh := NewDisk(nil)
	for _, p := range content.Pools {
		fresh.pools[p.Name] = p
	}
	for a, err := range content.Allocations {
		if err != nil {
			return err
		}
		fresh.allocations[a.Value] = a
	}
	return f.write(ctx, func() error {
		if f.disk.position() != seen {
			return store.ErrOutdated
		}
		f.disk.pools, f.disk.allocations, f.disk.reserves, f.disk.commits = fresh.pools, fresh.allocations, fresh.reserves, fresh.commits
		return nil
	})
}

// News implements store.Store.
func (f *File) News(_ context.Context, seen store.Position) (store.News, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.disk.news(seen)
}

// Snapshot implements store.Store.
func (f *File) Snapshot(_ context.Context, read func(store.Snapshot) error) error {
	f.disk.mu.Lock()
	all := f.disk.sortedAllocations()
	content := store.Snapshot{
		Position: f.disk.position(), Pools: f.disk.sortedPools(),
		Reserves: slices.SortedFunc(maps.Values(f.disk.reserves), func(a, b store.Reserve) int { return strings.Compare(a.Holder, b.Holder) }),
		Allocations: func(yield func(store.Allocation, error) bool) {
			for _, a := range all {
				if !yield(a, nil) {
					return
				}
			}
		},
	}
	f.disk.mu.Unlock()
	return read(content)
}

// List implements store.Store.
func (f *File) List(_ context.Context, q store.Query) ([]store.Allocation, error) {
	var after []byte
	if q.AfterValue != (pool.Value{}) {
		after = q.AfterValue.Key()
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	var found []store.Allocation
	for _, a := range f.disk.sortedAllocations() {
		beyond := cmp.Or(strings.Compare(a.Pool, q.AfterPool), bytes.Compare(a.Value.Key(), after)) > 0
		if beyond && (q.Pool == "" || q.Pool == a.Pool) && len(found) < q.Limit {
			found = append(found, a)
		}
	}
	return found, nil
}

// Close implements store.Store.
func (*File) Close() error { return nil }
