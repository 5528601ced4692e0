package endpointctl

import (
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

// Leading implements api.State.
func (d *Daemon) Leading() (epoch uint64, leading bool) {
	epoch = d.epoch.Load()
	return epoch, epoch > 0
}

// Pending implements api.State.
func (d *Daemon) Pending() int { return d.controller.Pending() }

// Failure implements api.State.
func (d *Daemon) Failure(key object.Name) (controller.Failure, bool) {
	return d.controller.Failure(key)
}

// Refused implements api.State.
func (d *Daemon) Refused(key object.Name) packing.Refused { return d.controller.Refused(key) }

// Resync implements api.State.
func (d *Daemon) Resync() int { return d.controller.Resync() }
