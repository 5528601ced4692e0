package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/kit/tracing"
)

const (
	viewFile  = "view.pb"
	saveEvery = 5 * time.Second
)

// viewCheck is the health check that fails while the agent uses the view from its disk.
const viewCheck = "view"

// viewPath returns the path of the saved view; empty: the view is not saved.
func (d *Daemon) viewPath() string {
	if d.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(d.cfg.DataDir, viewFile)
}

// loadView loads the view from disk, so that the node forwards even if the control plane is
// unavailable. It starts no probes, because their results could not be reported.
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
		d.diskRefused = err.Error()
		d.events.WarnNode(events.ViewOnDiskRefused, fmt.Sprintf("the view on disk is not used, and nothing is forwarded before the registry answers: %v", err))
		return
	}
	d.fromDisk = at
	d.log.Info("starting from the last view", "revision", d.view.Revision(), "age", time.Since(at).Round(time.Second))
	d.host.Health.Set(viewCheck, fmt.Errorf("forwarding by the view on disk, which was current at %s: the registry has not answered yet", at.UTC().Format(time.RFC3339)))
	d.refreshFacts()
	d.syncer.Changed(tracing.Span{})
}

// keepView returns the task that saves the view at a path. It must be called after loadView.
func (d *Daemon) keepView(path string) func(context.Context) error {
	keeping := viewfile.KeepOptions{
		Path: path, Revision: d.view.Revision, Loaded: d.view.Revision(), Save: d.view.Save,
		Changed: d.viewChanged, Every: saveEvery, Current: d.current, Report: d.reportSave,
	}
	return func(ctx context.Context) error { return viewfile.Keep(ctx, keeping) }
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

// current reports whether the view is known to match the registry. Normally the view's age is below
// about two bookmark intervals.
func (d *Daemon) current() bool { return d.follower.Synced() && d.follower.Age() < 2*saveEvery }

func (d *Daemon) reportSave(err error) {
	if err != nil {
		d.log.Warn("the view was not kept", "err", err)
	}
}
