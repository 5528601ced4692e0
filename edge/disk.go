package edge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"portolan.dev/services/changes/viewfile"
)

const (
	viewFile  = "view.pb"
	saveEvery = 5 * time.Second
)

// viewCheck is the health check that fails while the edge uses the view from its disk.
const viewCheck = "view"

// viewPath returns the path of the saved view; empty: the view is not saved.
func (d *Daemon) viewPath() string {
	if d.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(d.cfg.DataDir, viewFile)
}

// loadView loads the view from disk, so that the edge serves while the registry is away.
func (d *Daemon) loadView() {
	path := d.viewPath()
	if path == "" {
		return
	}
	if err := os.MkdirAll(d.cfg.DataDir, 0o700); err != nil {
		d.log.Warn("the view will not be kept", "err", err)
		return
	}
	at, err := d.view.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		d.log.Warn("the view on disk is not used: nothing is served before the registry answers", "err", err)
		return
	}
	d.fromDisk, d.loaded = at, d.view.Revision()
	d.log.Info("starting from the last view", "revision", d.loaded, "age", time.Since(at).Round(time.Second))
	d.host.Health.Set(viewCheck, fmt.Errorf("serving by the view on disk, which was current at %s: the registry has not answered yet", at.UTC().Format(time.RFC3339)))
	d.server.Changed()
}

// keepView saves the view until ctx is done.
func (d *Daemon) keepView(ctx context.Context) error {
	path := d.viewPath()
	if path == "" {
		return nil
	}
	return viewfile.Keep(ctx, viewfile.KeepOptions{
		Path: path, Revision: d.view.Revision, Loaded: d.loaded, Save: d.view.Save, Changed: d.viewChanged, Every: saveEvery,
		Current: func() bool { return d.follower.Synced() && d.follower.Age() < 2*saveEvery },
		Report: func(err error) {
			if err != nil {
				d.log.Warn("the view was not kept", "err", err)
			}
		},
	})
}

// viewAge returns the time since the view was known to be current.
func (d *Daemon) viewAge() time.Duration {
	if !d.fromDisk.IsZero() && !d.live.Load() {
		return time.Since(d.fromDisk)
	}
	return d.follower.Age()
}
