package viewfile

import (
	"context"
	"os"
	"time"

	"portolan.dev/services/kit/app"
)

// Keeping says how a view is kept on disk.
type Keeping struct {
	// Path of the file.
	Path string
	// Revision returns the revision of the view; 0: there is none yet.
	Revision func() uint64
	// Loaded is the revision of the file if the view was begun from it. It is not written again, which
	// would make it look current.
	Loaded uint64
	// Save writes the view to Path.
	Save func(path string) error
	// Changed is filled when the view may have changed.
	Changed <-chan struct{}
	// Every is the shortest time between two saves, and how often the file is marked as current
	// when nothing changes.
	Every time.Duration
	// Current reports whether the view is known to be what the registry has.
	Current func() bool
	// Report is given the outcome of each save. A failed one is repeated.
	Report func(error)
}

// Keep saves the view soon after each change, but never taking more than a small share of the
// time, and once more at the end.
func Keep(ctx context.Context, o Keeping) error {
	k := keeper{Keeping: o, saved: o.Loaded}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			k.confirm()
		case <-o.Changed:
			for ctx.Err() == nil && k.stale() {
				app.Pause(ctx, k.save())
			}
		}
	}
	k.save()
	k.confirm()
	return nil
}

// keeper is the state of Keep.
type keeper struct {
	Keeping
	saved uint64 // revision in the file
}

// stale reports whether the view has something that the file lacks.
func (k *keeper) stale() bool {
	now := k.Revision()
	return now != 0 && now != k.saved
}

// save writes what is new, and returns how long to leave the disk alone.
func (k *keeper) save() time.Duration {
	began := time.Now()
	if now := k.Revision(); k.stale() {
		err := k.Save(k.Path)
		if err == nil {
			k.saved = now
		}
		k.Report(err)
	}
	return max(k.Every, 20*time.Since(began))
}

// confirm marks the file as current, so that its age says how old its contents can be, not for
// how long nothing has changed.
func (k *keeper) confirm() {
	if k.saved == 0 || k.saved != k.Revision() || !k.Current() {
		return
	}
	now := time.Now()
	if err := os.Chtimes(k.Path, now, now); err != nil {
		k.Report(err)
	}
}
