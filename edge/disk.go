package edge

import (
	"context"
	"time"

	"portolan.dev/services/changes/viewfile"
)

// home is the place of the view on disk.
func (d *Daemon) home() viewfile.Home {
	return viewfile.Home{Dir: d.cfg.DataDir, Use: "serving", Log: d.log, Health: d.host.Health}
}

// loadView loads the view from disk, so that the edge serves while the registry is away.
func (d *Daemon) loadView() {
	at, err := d.home().Begin(d.view.Load)
	switch {
	case err != nil:
		d.log.Warn("the view on disk is not used: nothing is served before the registry answers", "err", err)
	case !at.IsZero():
		d.fromDisk, d.loaded = at, d.view.Revision()
		d.server.Changed()
	}
}

// keepView saves the view until ctx is done.
func (d *Daemon) keepView(ctx context.Context) error {
	return d.home().Keep(ctx, d.follower, viewfile.KeepOptions{
		Revision: d.view.Revision, Loaded: d.loaded, Save: d.view.Save, Changed: d.viewChanged,
	})
}

// viewAge returns the time since the view was known to be current.
func (d *Daemon) viewAge() time.Duration {
	if !d.fromDisk.IsZero() && !d.live.Load() {
		return time.Since(d.fromDisk)
	}
	return d.follower.Age()
}
