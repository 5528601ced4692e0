package lbctl

import (
	"context"
	"sync"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/lease"
	"portolan.dev/services/object"
)

const (
	// afterChange is the longest time until a service that has failed is tried again after a change.
	afterChange = time.Second
	// retryMin is the pause after the first failure of a service. Each further one doubles it, up to retryMax.
	retryMin, retryMax = 5 * time.Second, 5 * time.Minute
	// poolsInterval is the interval at which the pools are read while a service waits for an address.
	poolsInterval = 2 * time.Second
)

// newElector returns the elector of this replica. There is one shard, so its holder leads.
func (d *Daemon) newElector() *lease.Group {
	return lease.New(lease.Config{
		Client: registryv1.NewLeaseServiceClient(d.registry), Log: d.log, Namespace: object.DefaultNamespace,
		Name: d.cfg.LeaseName, Identity: d.cfg.Identity, Duration: d.cfg.LeaseDuration, Shards: 1, Lead: d.lead,
	})
}

// lead runs the controller and the announcer. It first waits until this replica has read all writes of
// the previous leader, which can write no more.
func (d *Daemon) lead(ctx context.Context, _ int, epoch, revision uint64) {
	if !d.follower.WaitFor(ctx, revision) {
		return
	}
	d.epoch.Store(epoch)
	defer d.epoch.Store(0)
	var parts sync.WaitGroup
	parts.Go(func() { d.controller.Lead(ctx) })
	if d.cfg.Announce {
		parts.Go(func() { d.leadAnnouncing(ctx) })
	}
	parts.Wait()
}

// runElection competes for the lease once the registry has been read.
func (d *Daemon) runElection(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.synced:
		return d.elector.Run(ctx)
	}
}
