package viewfile

import (
	"context"
	"os"
	"time"

	"portolan.dev/services/kit/app"
)

// KeepOptions is the configuration of Keep.
type KeepOptions struct {
	// Path is the path of the file.
	Path string
	// Revision returns the revision of the view, or 0 if there is no view yet.
	Revision func() uint64
	// Loaded is the revision of the file that the view was loaded from, or 0. Keep does not write
	// that revision again, because that would make it look current.
	Loaded uint64
	// Save writes the view to Path.
	Save func(path string) error
	// Changed receives a value when the view may have changed.
	Changed <-chan struct{}
	// Every is the shortest time between two saves, and the time between two updates of the file's
	// modification time while nothing changes.
	Every time.Duration
	// Current reports whether the view is known to equal the registry's state.
	Current func() bool
	// Report receives the result of each save. A failed save is repeated.
	Report func(error)
}

// Keep saves the view soon after each change, and once more when ctx is done. It pauses for 20
// times the duration of a save after it, so that saving takes only a small share of the time.
func Keep(ctx context.Context, o KeepOptions) error {
	k := keeper{KeepOptions: o, saved: o.Loaded}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			k.touch()
		case <-o.Changed:
			for ctx.Err() == nil && k.unsaved() {
				app.Pause(ctx, k.save())
			}
		}
	}
	k.save()
	k.touch()
	return nil
}

// keeper is the state of Keep.
type keeper struct {
	KeepOptions
	saved uint64 // the file's revision
}

// unsaved reports whether the view's revision differs from the file's.
func (k *keeper) unsaved() bool {
	now := k.Revision()
	return now != 0 && now != k.saved
}

// save saves the view if it has changed, and returns the pause before the next save.
func (k *keeper) save() time.Duration {
	began := time.Now()
	if now := k.Revision(); k.unsaved() {
		err := k.Save(k.Path)
		if err == nil {
			k.saved = now
		}
		k.Report(err)
	}
	return max(k.Every, 20*time.Since(began))
}

// touch sets the file's modification time to now if its contents are current. The age of the file
// is then the age of its contents, not the time since the last change.
func (k *keeper) touch() {
	if k.saved == 0 || k.saved != k.Revision() || !k.Current() {
		return
	}
	now := time.Now()
	if err := os.Chtimes(k.Path, now, now); err != nil {
		k.Report(err)
	}
}
