package nodeagent

import (
	"context"
	"fmt"
	"time"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/kit/tracing"
)

// home returns the place of the view on disk.
func (d *Daemon) home() viewfile.Home {
	return viewfile.Home{Dir: d.cfg.DataDir, Use: "forwarding", Log: d.log, Health: d.host.Health}
}

// loadView loads the view from disk, so that the node forwards even if the control plane is
// unavailable. It starts no probes, because their results could not be reported.
func (d *Daemon) loadView() {
	at, err := d.home().Begin(d.view.Load)
	switch {
	case err != nil:
		d.diskRefused = err.Error()
		d.events.WarnNode(events.ViewOnDiskRefused, fmt.Sprintf("the view on disk is not used, and nothing is forwarded before the registry answers: %v", err))
	case !at.IsZero():
		d.fromDisk, d.loaded = at, d.view.Revision()
		d.refreshFacts()
		d.syncer.Changed(tracing.Span{})
	}
}

// keepView saves the view until ctx is done.
func (d *Daemon) keepView(ctx context.Context) error {
	return d.home().Keep(ctx, d.follower, viewfile.KeepOptions{
		Revision: d.view.Revision, Loaded: d.loaded, Save: d.view.Save, Changed: d.viewChanged,
	})
}

// onDisk reports whether the agent uses the view from its disk.
func (d *Daemon) onDisk() bool { return !d.fromDisk.IsZero() && !d.syncer.Live() }

// viewAge returns the time since the view was known to be current.
func (d *Daemon) viewAge() time.Duration {
	if d.onDisk() {
		return time.Since(d.fromDisk)
	}
	return d.follower.Age()
}
