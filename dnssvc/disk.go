package dnssvc

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
	viewOwner = "dnssvc"
	saveEvery = 5 * time.Second
	// absenceDelay is the time after which a name that the view on disk lacks is answered NXDOMAIN,
	// if the registry has not answered by then. A running registry has sent its snapshot within
	// this time.
	absenceDelay = 5 * time.Second
	// viewCheck is the name of the health check that fails while answers come from the view on
	// disk.
	viewCheck = "view"
)

// viewPath returns the path of the view on disk. It returns "" if no view is kept.
func (d *Daemon) viewPath() string {
	if d.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(d.cfg.DataDir, viewFile)
}

// loadView fills the table from the view on disk, so that its names are answered while the registry
// is away. If the file cannot be used, the daemon starts without it.
func (d *Daemon) loadView() {
	path := d.viewPath()
	if path == "" {
		return
	}
	if err := os.MkdirAll(d.cfg.DataDir, 0o700); err != nil {
		d.log.Warn("the view will not be kept", "err", err)
		return
	}
	file, err := viewfile.Load(path, viewOwner)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if age := time.Since(file.At); err == nil && age > d.cfg.DataMaxAge {
		err = fmt.Errorf("it was current %s ago, which is more than data-max-age (%s)", age.Round(time.Second), d.cfg.DataMaxAge)
	}
	if err == nil {
		err = d.table.Restore(file.Objects, file.Revision)
	}
	if err != nil {
		d.log.Warn("the view on disk is not used: names are unknown until the registry answers", "path", path, "err", err)
		return
	}
	d.fromDisk = file.At
	d.onDisk.Store(true)
	d.log.Info("starting from the last view", "revision", file.Revision, "age", time.Since(file.At).Round(time.Second))
	d.health.Set(viewCheck, fmt.Errorf("answering from the view on disk, which was current at %s: the registry has not answered yet",
		file.At.UTC().Format(time.RFC3339)))
}

// leaveDiskView records that answers no longer come from the view on disk.
func (d *Daemon) leaveDiskView() {
	if d.onDisk.Swap(false) {
		d.health.Set(viewCheck, nil)
	}
}

// boundDiskView bounds the use of the view on disk. Its names are answered at once, other names are
// NXDOMAIN after absenceDelay, and the view is dropped once it is older than DataMaxAge.
func (d *Daemon) boundDiskView(ctx context.Context) error {
	if d.fromDisk.IsZero() {
		return nil
	}
	left := d.cfg.DataMaxAge - time.Since(d.fromDisk)
	if left > absenceDelay {
		if !d.waitUnsynced(ctx, absenceDelay) {
			return nil
		}
		d.table.TrustRestored()
		left -= absenceDelay
	}
	if d.waitUnsynced(ctx, left) {
		d.table.DropRestored()
		d.leaveDiskView()
		d.log.Warn("the view on disk is too old: names are unknown until the registry answers", "max_age", d.cfg.DataMaxAge)
	}
	return nil
}

// waitUnsynced waits for the given time and reports whether no snapshot arrived in it.
func (d *Daemon) waitUnsynced(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-d.synced:
		return false
	case <-timer.C:
		return true
	}
}

// saveViews keeps the view on disk. It writes only after changes of names, because a log that is
// busy with other kinds would otherwise rewrite a large view again and again.
func (d *Daemon) saveViews(ctx context.Context) error {
	path := d.viewPath()
	if path == "" {
		return nil
	}
	serial := func() uint64 { return uint64(d.table.Snapshot().Serial) }
	return viewfile.Keep(ctx, viewfile.KeepOptions{
		Path: path, Revision: serial, Loaded: d.loadedSerial, Changed: d.dirty, Every: saveEvery, Save: d.saveView,
		Current: func() bool { return d.follower.Synced() && d.follower.Age() < 2*saveEvery },
		Report: func(err error) {
			if err != nil {
				d.log.Warn("the view was not kept", "err", err)
			}
		},
	})
}

func (d *Daemon) saveView(path string) error {
	objects, revision := d.table.Objects()
	return viewfile.Save(path, viewOwner, revision, objects)
}

// age returns the time since the names were last known to be current.
func (d *Daemon) age() time.Duration {
	if !d.fromDisk.IsZero() && !d.follower.Synced() {
		return time.Since(d.fromDisk)
	}
	return d.follower.Age()
}
