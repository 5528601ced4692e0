package lease

import (
	"context"
	"fmt"
	"time"

	corev1 "portolan.dev/api/core/v1"
)

// stored returns a number of shards as the field of a lease. With one shard it is not set, as in
// leases of earlier releases.
func stored(shards int) int32 {
	if shards == 1 {
		return 0
	}
	return int32(shards)
}

// count returns the number of shards that the lease of shard 0 shows, or 0 if it does not exist.
func (g *Group) count() int {
	if g.shards[0].seen == nil {
		return 0
	}
	return max(1, int(g.shards[0].seen.GetSpec().GetShards()))
}

// isInForce reports whether this replica's number of shards is in force. The holder of shard 0 does not
// depend on the lease that it read, because a registry that lags returns an old one.
func (g *Group) isInForce() bool { return g.holds(g.shards[0]) || g.count() == g.cfg.Shards }

// isOpen reports whether a lease can be taken by a replica with this number of shards. The lease of
// shard 0 always can, if the number is in force.
func (g *Group) isOpen(e *elector) bool {
	return e == g.shards[0] || e.seen != nil && e.seen.GetSpec().GetShards() == stored(g.cfg.Shards)
}

// isForeign reports whether a lease, except the lease of shard 0, can be held by a replica with another
// number of shards.
func (g *Group) isForeign(e *elector) bool {
	shards := e.seen.GetSpec().GetShards()
	return shards != 0 && shards != stored(g.cfg.Shards)
}

// changeCount puts this replica's number of shards in force if no replica with another number holds a
// shard. Otherwise this replica takes no shards, and gives up its place of a member and all shards that it
// holds. It can hold shards here only if the lease of shard 0 was overwritten by a replica of a release
// without shards.
func (g *Group) changeCount(ctx context.Context) bool {
	first, count := g.shards[0], g.count()
	if count != 0 {
		g.giveUpAll()
		g.reportWaiting(fmt.Sprintf("-shards is %d here, but the Lease %s/%s has %d: this replica takes no shards until all replicas with %d have stopped; "+
			"set -shards to the same number on all replicas", g.cfg.Shards, g.cfg.Namespace, first.name, count, count))
	}
	if !first.vacant() {
		return false
	}
	for _, e := range g.shards[1:] {
		if e.unknown || g.isForeign(e) && !e.vacant() {
			return false
		}
		if count == 0 && g.isForeign(e) {
			count = int(e.seen.GetSpec().GetShards()) // the lease of shard 0 was deleted
		}
	}
	if count == 0 {
		count = g.cfg.Shards
	}
	held, at, err := first.take(ctx, count)
	if err == nil && count != g.cfg.Shards {
		held, at, err = g.convert(ctx, held, at)
	}
	if err != nil {
		g.cfg.Log.Debug("number of shards not changed", "from", count, "to", g.cfg.Shards, "err", err)
		return false
	}
	g.reportWaiting("")
	g.hold(ctx, first, held, at)
	return true
}

// convert closes the leases of another number of shards and then puts this replica's number into the
// lease of shard 0, which this replica has just taken. If that fails, it releases the lease.
func (g *Group) convert(ctx context.Context, held *corev1.Lease, at time.Time) (*corev1.Lease, time.Time, error) {
	first := g.shards[0]
	asked, err := g.closeForeign(ctx, held, at)
	if err == nil {
		next := held.CloneVT()
		next.Spec.Shards = stored(g.cfg.Shards)
		var changed *corev1.Lease
		if changed, err = first.put(ctx, next); err == nil {
			g.cfg.Log.Info("number of shards changed", "shards", g.cfg.Shards)
			return changed, asked, nil
		}
	}
	first.release(held)
	return nil, at, err
}

// closeForeign closes the leases of another number of shards. It reads them after the lease of shard
// 0 was taken: from then on only this replica opens leases. It returns the time at which it ended.
func (g *Group) closeForeign(ctx context.Context, first *corev1.Lease, at time.Time) (time.Time, error) {
	ctx, cancel := context.WithDeadline(ctx, at.Add(g.cfg.Duration/2))
	defer cancel()
	ctx = Fence(ctx, g.cfg.Namespace, g.shards[0].name, first.GetSpec().GetEpoch())
	g.readAll(ctx, g.shards[1:], first.GetMetadata().GetResourceVersion())
	for _, e := range g.shards[1:] {
		switch {
		case e.unknown:
			return at, fmt.Errorf("lease %s could not be read", e.name)
		case !g.isForeign(e):
			continue
		case !e.vacant():
			return at, fmt.Errorf("%s holds the lease %s", e.holder(), e.name)
		}
		closed := e.heldByMe(e.seen, 1)
		closed.Spec.HolderIdentity = closedBy + g.cfg.Identity
		if _, err := e.put(ctx, closed); err != nil {
			return at, fmt.Errorf("close the lease %s: %w", e.name, err)
		}
	}
	return time.Now(), nil
}

// closedBy is the beginning of the holder of a lease that is closed. It is a holder because only a
// new holder gives the lease a new epoch, without which the last holder could still write.
const closedBy = "closed by "

// openShards opens the leases that do not exist or were closed, if this replica holds shard 0. It
// reports whether it opened any.
func (g *Group) openShards(ctx context.Context) (changed bool) {
	if !g.holds(g.shards[0]) {
		return false
	}
	ctx = Fence(ctx, g.cfg.Namespace, g.shards[0].name, g.first)
	for _, e := range g.shards[1:g.cfg.Shards] {
		if e.unknown || e.seen.GetSpec().GetShards() != 0 {
			continue
		}
		open := e.heldByMe(e.seen, g.cfg.Shards)
		open.Spec.HolderIdentity = ""
		if _, err := e.put(ctx, open); err != nil {
			g.cfg.Log.Debug("lease not opened", "lease", e.name, "err", err)
			return changed
		}
		changed = true
	}
	return changed
}

// reportWaiting reports why this replica takes no shards, if the reason has changed.
func (g *Group) reportWaiting(reason string) {
	if reason == g.waits {
		return
	}
	g.waits = reason
	if reason != "" {
		g.cfg.Log.Warn("no shards taken", "reason", reason)
	}
	if g.cfg.Waits != nil {
		g.cfg.Waits(reason)
	}
}
