package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/services/kit/tracing"
)

const (
	viewFile  = "view.pb"
	saveEvery = 5 * time.Second
)

// viewCheck is the health check that fails while the agent uses the view from its disk.
const viewCheck = "view"

func (a *Agent) viewPath() string {
	if a.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(a.cfg.DataDir, viewFile)
}

// loadView loads the view from disk, so that the node forwards even if the control plane is
// unavailable. It starts no probes, because their results could not be reported.
func (a *Agent) loadView() {
	path := a.viewPath()
	if path == "" {
		return
	}
	if err := os.MkdirAll(a.cfg.DataDir, 0o750); err != nil {
		a.log.Warn("the view will not be kept", "err", err)
		return
	}
	at, err := a.view.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		a.diskRefused = err.Error()
		a.events.WarnNode(events.ViewOnDiskRefused, fmt.Sprintf("the view on disk is not used, and nothing is forwarded before the registry answers: %v", err))
		return
	}
	a.fromDisk = at
	a.log.Info("starting from the last view", "revision", a.view.Revision(), "age", time.Since(at).Round(time.Second))
	a.host.Health.Set(viewCheck, fmt.Errorf("forwarding by the view on disk, which was current at %s: the registry has not answered yet", at.UTC().Format(time.RFC3339)))
	a.refreshFacts()
	a.syncer.Changed(tracing.Span{})
}

// onDisk reports whether the agent uses the view from its disk.
func (a *Agent) onDisk() bool { return !a.fromDisk.IsZero() && !a.syncer.Live() }

// viewAge returns the time since the view was known to be current.
func (a *Agent) viewAge() time.Duration {
	if a.onDisk() {
		return time.Since(a.fromDisk)
	}
	return a.follower.Age()
}

// current reports whether the view is known to match the registry. Normally the view's age is below
// about two bookmark intervals.
func (a *Agent) current() bool { return a.follower.Synced() && a.follower.Age() < 2*saveEvery }

func (a *Agent) reportSave(err error) {
	if err != nil {
		a.log.Warn("the view was not kept", "err", err)
	}
}
