package viewfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
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

// Home is the place of a daemon's view: a file in the folder of the daemon's data.
type Home struct {
	// Dir is the folder, which is made if there is none. If Dir is empty, no view is kept.
	Dir string
	// Use is the daemon's use of its view, such as "forwarding", for the health check.
	Use    string
	Log    *slog.Logger
	Health *health.Registry
}

// Follower reports how well a view follows the registry.
type Follower interface {
	// Synced reports whether the view is from the registry.
	Synced() bool
	// Age returns the time since the view was known to be current.
	Age() time.Duration
}

// Begin loads the view on the disk, with which a daemon starts. load reads the view from a path and returns
// the revision of the log and the time at which the view was last known to be current. Begin returns that
// time. It returns the zero time if there is no view, and the error of load if the view cannot be used.
func (h Home) Begin(load func(path string) (revision uint64, at time.Time, err error)) (time.Time, error) {
	if h.Dir == "" {
		return time.Time{}, nil
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		h.Log.Warn("the view will not be kept", "err", err)
		return time.Time{}, nil
	}
	revision, at, err := load(h.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	}
	h.Log.Info("starting from the last view", "revision", revision, "age", time.Since(at).Round(time.Second))
	h.Health.Set(check, fmt.Errorf("%s by the view on disk, which was current at %s: the registry has not answered yet", h.Use, at.UTC().Format(time.RFC3339)))
	return at, nil
}

// Leave ends the health check's failure, because the daemon no longer uses the view from its disk.
func (h Home) Leave() { h.Health.Set(check, nil) }

// Keep saves the view until ctx is done. Of the options it sets Path, Every, Current and Report.
func (h Home) Keep(ctx context.Context, follower Follower, o KeepOptions) error {
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

func (h Home) path() string { return filepath.Join(h.Dir, fileName) }
