package lbctl

import (
	"context"
	"sync"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/lease"
	"portolan.dev/services/object"

	"portolan.dev/lbctl/internal/offers"
)

// afterChange is the longest time until a service that has failed is tried again after a change.
const afterChange = time.Second

// newElector returns the elector of this replica, and makes the reporter of the leader. There is one shard, so its
// holder leads.
func (d *Daemon) newElector() (_ *lease.Group, err error) {
	name := d.cfg.Identity
	if name == "" {
		if name, err = lease.NewIdentity(); err != nil {
			return nil, err
		}
	}
	leases := registryv1.NewLeaseServiceClient(d.registry)
	d.reporter = &offers.Reporter{Leases: leases, Providers: d.providers, Log: d.log, LeaseName: d.cfg.LeaseName, Identity: name}
	return lease.New(lease.Config{
		Client: leases, Log: d.log, Namespace: object.DefaultNamespace,
		Name: d.cfg.LeaseName, Identity: name, Duration: d.cfg.LeaseDuration, Shards: 1, Lead: d.lead,
	}), nil
}

// lead runs the controller, the announcer and the reporter of capabilities. It first waits until this replica has
// read all writes of the previous leader, which can write no more.
func (d *Daemon) lead(ctx context.Context, _ int, epoch, revision uint64) {
	if !d.follower.WaitFor(ctx, revision) {
		return
	}
	d.epoch.Store(epoch)
	defer d.epoch.Store(0)
	var parts sync.WaitGroup
	parts.Go(func() { d.controller.Lead(ctx) })
	parts.Go(func() { d.reporter.Run(ctx) })
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
