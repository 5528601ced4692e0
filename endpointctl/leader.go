package endpointctl

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/lease"
)

// newElector returns the elector of this replica.
func (d *Daemon) newElector() (*lease.Elector, error) {
	identity := d.cfg.Identity
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("host name: %w", err)
		}
		identity = host + "-" + rand.Text()[:8]
	}
	return lease.New(lease.Config{
		Client: registryv1.NewLeaseServiceClient(d.registry), Log: d.log, Namespace: object.DefaultNamespace,
		Name: d.cfg.LeaseName, Identity: identity, Duration: d.cfg.LeaseDuration, Lead: d.lead,
	}), nil
}

// lead runs the tasks that only the leader may run. It first waits until this replica has read all
// writes of the previous leader, which can write no more.
func (d *Daemon) lead(ctx context.Context, epoch, revision uint64) {
	if !d.waitForRevision(ctx, revision) {
		return
	}
	d.epoch.Store(epoch)
	defer d.epoch.Store(0)
	var parts sync.WaitGroup
	parts.Go(func() { d.controller.Lead(ctx) })
	if d.nodes != nil {
		parts.Go(func() { d.nodes.Lead(ctx) })
	}
	parts.Wait()
}

// waitForRevision waits for a revision. It returns false if ctx is done first.
func (d *Daemon) waitForRevision(ctx context.Context, revision uint64) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for d.follower.Revision() < revision {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
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
