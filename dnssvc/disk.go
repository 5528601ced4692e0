package dnssvc

import (
	"context"
	"fmt"
	"time"

	"portolan.dev/services/changes/viewfile"
)

const (
	viewOwner = "dnssvc"
	// absenceDelay is the time after which a name that the view on disk lacks is answered NXDOMAIN,
	// if the registry has not answered by then. A running registry has sent its snapshot within
	// this time.
	absenceDelay = 5 * time.Second
)

// loadView fills the table from the view on disk, so that its names are answered while the registry
// is away. If the file cannot be used, the daemon starts without it.
func (d *Daemon) loadView() {
	if _, err := d.home.Begin(d.restore); err != nil {
		d.log.Warn("the view on disk is not used: names are unknown until the registry answers", "err", err)
	}
}

// restore fills the table from a file.
func (d *Daemon) restore(path string) (revision uint64, at time.Time, err error) {
	file, err := viewfile.Load(path, viewOwner)
	if err != nil {
		return 0, time.Time{}, err
	}
	if age := time.Since(file.At); age > d.cfg.DataMaxAge {
		return 0, time.Time{}, fmt.Errorf("%s was current %s ago, which is more than data-max-age (%s)", path, age.Round(time.Second), d.cfg.DataMaxAge)
	}
	return file.Revision, file.At, d.table.Restore(file.Objects, file.Revision)
}

// boundDiskView bounds the use of the view on disk. Its names are answered at once, other names are
// NXDOMAIN after absenceDelay, and the view is dropped once it is older than DataMaxAge.
func (d *Daemon) boundDiskView(ctx context.Context) error {
	if !d.home.OnDisk() {
		return nil
	}
	left := d.cfg.DataMaxAge - time.Since(d.home.LoadedAt())
	if left > absenceDelay {
		if !d.waitUnsynced(ctx, absenceDelay) {
			return nil
		}
		d.table.TrustRestored()
		left -= absenceDelay
	}
	if d.waitUnsynced(ctx, left) {
		d.table.DropRestored()
		d.home.Leave()
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
	serial := func() uint64 { return uint64(d.table.Snapshot().Serial) }
	return d.home.Keep(ctx, d.follower, viewfile.KeepOptions{Revision: serial, Loaded: d.loadedSerial, Changed: d.dirty, Save: d.saveView})
}

func (d *Daemon) saveView(path string) error {
	objects, revision := d.table.Objects()
	return viewfile.Save(path, viewOwner, revision, objects)
}

// age returns the time since the names were last known to be current.
func (d *Daemon) age() time.Duration {
	if at := d.home.LoadedAt(); !at.IsZero() && !d.follower.Synced() {
		return time.Since(at)
	}
	return d.follower.Age()
}
