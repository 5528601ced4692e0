package lbctl

import (
	"context"
	"sync"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/lease"
	"portolan.dev/services/object"
)

// afterChange is the longest time until a service that has failed is tried again after a change.
const afterChange = time.Second

// newElector returns the elector of this replica. There is one shard, so its holder leads.
func (d *Daemon) newElector() (_ *lease.Group, err error) {
	name := d.cfg.Identity
	if name == "" {
		if name, err = lease.NewIdentity(); err != nil {
			return nil, err
		}
	}
	return lease.New(lease.Config{
		Client: registryv1.NewLeaseServiceClient(d.registry), Log: d.log, Namespace: object.DefaultNamespace,
		Name: d.cfg.LeaseName, Identity: name, Duration: d.cfg.LeaseDuration, Shards: 1, Lead: d.lead,
	}), nil
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
