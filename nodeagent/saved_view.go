package nodeagent

import (
	"fmt"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/services/kit/tracing"
)

// loadView loads the view from disk, so that the node forwards even if the control plane is
// unavailable. It starts no probes, because their results could not be reported.
func (d *Daemon) loadView() {
	loaded, err := d.home.Begin(d.view.Load)
	if err != nil {
		d.diskRefused = err.Error()
		d.events.WarnNode(events.ViewOnDiskRefused, fmt.Sprintf("the view on disk is not used, and nothing is forwarded before the registry answers: %v", err))
	}
	if loaded {
		d.refreshFacts()
		d.syncer.Changed(tracing.Span{})
	}
}
