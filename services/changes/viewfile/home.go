package viewfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"portolan.dev/services/kit/health"
)

const (
	fileName = "view.pb"
	// saveEvery is the shortest time between two saves of a daemon's view.
	saveEvery = 5 * time.Second
	// check is the name of the health check that fails while a daemon uses the view from its disk.
	check = "view"
)

// Home is the place of a daemon's view: a file in the folder of the daemon's data. It knows whether the
// daemon still uses the view from the file. A Home must not be copied after Begin.
type Home struct {
	// Dir is the folder, which is made if there is none. If Dir is empty, no view is kept.
	Dir string
	// Use says in one word how the daemon uses its view, such as "forwarding", for the health check.
	Use    string
	Log    *slog.Logger
	Health *health.Registry

	at       time.Time   // when the loaded view was current; zero: none was loaded
	revision uint64      // of the loaded view
	left     atomic.Bool // the daemon no longer uses the loaded view
}

// Follower reports how well a view follows the registry.
type Follower interface {
	// Synced reports whether the view is from the registry.
	Synced() bool
	// Age returns the time since the view was known to be current.
	Age() time.Duration
}

// Begin loads the view from the disk and reports whether there was one. load takes the view over from a
// path and returns the revision of the log and the time at which the view was last known to be current.
// Begin returns the error of load, unless there is no file.
func (h *Home) Begin(load func(path string) (revision uint64, at time.Time, err error)) (loaded bool, err error) {
	if h.Dir == "" {
		return false, nil
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		h.Log.Warn("the view will not be kept", "err", err)
		return false, nil
	}
	revision, at, err := load(h.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	h.revision, h.at = revision, at
	h.Log.Info("starting from the last view", "revision", revision, "age", time.Since(at).Round(time.Second))
	h.Health.Set(check, fmt.Errorf("%s by the view on disk, which was current at %s: the registry has not answered yet", h.Use, at.UTC().Format(time.RFC3339)))
	return true, nil
}

// Leave records that the daemon no longer uses the view from its disk. Only the first call has an effect.
func (h *Home) Leave() {
	if !h.left.Swap(true) {
		h.Health.Set(check, nil)
	}
}

// OnDisk reports whether the daemon uses the view from its disk.
func (h *Home) OnDisk() bool { return !h.at.IsZero() && !h.left.Load() }

// LoadedAt returns the time at which the loaded view was current, or the zero time if none was loaded.
func (h *Home) LoadedAt() time.Time { return h.at }

// Age returns the time since the view in use was known to be current.
func (h *Home) Age(follower Follower) time.Duration {
	if h.OnDisk() {
		return time.Since(h.at)
	}
	return follower.Age()
}

// View is a view of the registry that KeepView can save. Its revision is the number of the last change of the log
// that it includes.
type View interface {
	// Revision returns the revision of the view, or 0 if it is empty.
	Revision() uint64
	// Save writes the view to a path.
	Save(path string) error
}

// KeepView saves a view until ctx is done. changed receives a value when the view may have changed.
func (h *Home) KeepView(ctx context.Context, follower Follower, view View, changed <-chan struct{}) error {
	return h.Keep(ctx, follower, KeepOptions{Revision: view.Revision, Loaded: h.revision, Save: view.Save, Changed: changed})
}

// Keep saves the view until ctx is done. Of the options it sets Path, Every, Current and Report.
func (h *Home) Keep(ctx context.Context, follower Follower, o KeepOptions) error {
	if h.Dir == "" {
		return nil
	}
	o.Path, o.Every = h.path(), saveEvery
	// The age of a view that follows a running registry is below about two intervals of bookmarks.
	o.Current = func() bool { return follower.Synced() && follower.Age() < 2*saveEvery }
	o.Report = func(err error) {
		if err != nil {
			h.Log.Warn("the view was not kept", "err", err)
		}
	}
	return Keep(ctx, o)
}

func (h *Home) path() string { return filepath.Join(h.Dir, fileName) }
