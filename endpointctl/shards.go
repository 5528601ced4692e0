package endpointctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"

	"portolan.dev/services/lease"
)

// nodesShard is the shard of the leader. Its holder also sets the readiness of nodes.
const nodesShard = 0

// holding is this replica's part of the shards. It is safe for concurrent use.
type holding struct {
	showing sync.Mutex // so that the last change is shown last

	mu     sync.Mutex
	epochs map[int]uint64 // guarded by mu: the epochs of the leases of the shards that are held
	waits  string         // guarded by mu: reason for which no shards are taken, or empty
}

func (h *holding) add(shard int, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epochs[shard] = epoch
}

func (h *holding) remove(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.epochs, shard)
}

// shards returns the shards that are held, in order.
func (h *holding) shards() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.epochs))
}

// epoch returns the epoch of the lease of a shard, or 0 if it is not held.
func (h *holding) epoch(shard int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epochs[shard]
}

func (h *holding) setWaits(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = reason
}

// waiting returns the reason why no shards are taken, or "".
func (h *holding) waiting() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waits
}

// newGroup returns this replica's part of the shards, which holds none.
func (d *Daemon) newGroup() (_ *lease.Group, err error) {
	identity := d.cfg.Identity
	if identity == "" {
		if identity, err = lease.NewIdentity(); err != nil {
			return nil, err
		}
	}
	return lease.New(lease.Config{
		Client: registryv1.NewLeaseServiceClient(d.registry), Log: d.log, Namespace: object.DefaultNamespace,
		Name: d.cfg.LeaseName, Identity: identity, Duration: d.cfg.LeaseDuration, Shards: d.cfg.Shards,
		Lead: d.lead, Moved: d.countMove, Waits: d.showWaiting,
	}), nil
}

// lead runs the tasks that only the holder of a shard may run. It first waits until this replica has
// read all writes of the previous holder, which can write no more.
func (d *Daemon) lead(ctx context.Context, shard int, epoch, revision uint64) {
	if !d.follower.WaitFor(ctx, revision) {
		return
	}
	d.held.add(shard, epoch)
	d.showHeld()
	defer d.showHeld()
	defer d.held.remove(shard)
	var parts sync.WaitGroup
	parts.Go(func() { d.controller.Lead(ctx, shard) })
	if d.nodes != nil && shard == nodesShard {
		parts.Go(func() { d.nodes.Lead(ctx) })
	}
	parts.Wait()
}

// showHeld shows the shards that are held at /readyz, if there are several.
func (d *Daemon) showHeld() {
	if d.cfg.Shards == 1 {
		return
	}
	d.held.showing.Lock()
	defer d.held.showing.Unlock()
	d.health.Note("shards", heldText(d.held.shards(), d.cfg.Shards))
}

// heldText describes shards, such as "holds 0, 2 of 4".
func heldText(held []int, shards int) string {
	if len(held) == 0 {
		return fmt.Sprintf("holds none of %d", shards)
	}
	var numbers []string
	for _, shard := range held {
		numbers = append(numbers, fmt.Sprint(shard))
	}
	return fmt.Sprintf("holds %s of %d", strings.Join(numbers, ", "), shards)
}

// showWaiting shows at /readyz why no shards are taken. The replica stays ready, because it takes over
// when the other replicas stop, and a rolling restart goes on only if it is ready.
func (d *Daemon) showWaiting(reason string) {
	d.held.setWaits(reason)
	if reason == "" {
		d.health.Warn("shards", nil)
	} else {
		d.health.Warn("shards", errors.New(reason))
	}
}

// runElection competes for shards once the registry has been read.
func (d *Daemon) runElection(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.synced:
		return d.group.Run(ctx)
	}
}
