package endpointctl

import (
	"context"

	"portolan.dev/endpointctl/internal/api"
	"portolan.dev/endpointctl/internal/controller"
	"portolan.dev/endpointctl/internal/packing"
	"portolan.dev/services/object"
)

// The API reads the state of the daemon.
var _ api.State = (*Daemon)(nil)

// Synced implements api.State.
func (d *Daemon) Synced() bool { return d.follower.Synced() }

// Revision implements api.State.
func (d *Daemon) Revision() uint64 { return d.follower.Revision() }

// Epoch implements api.State.
func (d *Daemon) Epoch() uint64 { return d.held.epoch(nodesShard) }

// Shards implements api.State.
func (d *Daemon) Shards() (held []int, all int) { return d.held.shards(), d.cfg.Shards }

// Waits implements api.State.
func (d *Daemon) Waits() string { return d.held.waiting() }

// Pending implements api.State.
func (d *Daemon) Pending() int { return d.controller.Pending() }

// Failure implements api.State.
func (d *Daemon) Failure(key object.Name) (controller.Failure, bool) {
	return d.controller.Failure(key)
}

// Refused implements api.State.
func (d *Daemon) Refused(key object.Name) packing.Refused { return d.controller.Refused(key) }

// Resync implements api.State.
func (d *Daemon) Resync(ctx context.Context) (services, corrected int, err error) {
	corrected, err = d.follower.Resync(ctx)
	return d.controller.Resync(), corrected, err
}

// Check implements api.State.
func (d *Daemon) Check(ctx context.Context) error { return d.follower.Check(ctx) }
