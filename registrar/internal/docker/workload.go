package docker

import (
	"time"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// reader turns containers into workloads.
type reader struct {
	options *Options
	signals signals
	now     time.Time
	// lookUp returns a running container by its ID, or nil.
	lookUp func(id string) *container
	// next is the earliest time at which a terminating workload stops being so. Zero: there is none.
	next time.Time
}

// workload returns the workload of a container. It is nil if the container is not registered; the problems
// are the reason then. The problems of a workload are in the workload itself.
func (r *reader) workload(c *container) (*source.Workload, []source.Problem) {
	p := &problems{object: c.name()}
	l := r.options.labelsOf(c, p)
	if !l.wanted(p) {
		return nil, p.found()
	}
	settings, wrong := (&labels.Reader{Object: p.object, Spelling: labels.Docker, Spell: l.spell}).Read(l.values)
	p.list = append(p.list, wrong...)
	if settings.Service == "" || settings.Misplaced {
		return nil, p.found()
	}
	ports := l.portsOf(c, settings.Ports, p)
	if len(ports) == 0 {
		return nil, p.found()
	}
	at, found := r.placeOf(c, l, ports, p)
	if !found {
		return nil, p.found()
	}
	load := &source.Workload{
		ID: c.ID, Name: p.object, Origin: originOf(c),
		Namespace: settings.Namespace, Service: settings.Service,
		Ports: at.ports, Addresses: at.addresses, HostNetwork: at.hostNetwork,
		Labels: settings.Labels, Weight: settings.Weight, Drain: settings.Drain,
		Probe: settings.Probe, Terminating: r.terminating(c, settings.Drain),
	}
	if load.Drain == 0 {
		load.Drain = c.stopTimeout()
	}
	if at.published && !publishProbe(settings.Probe, at.ports) {
		settings.NeverReady = l.spell(labels.Ready) + " checks a port that is not published"
		load.Probe = nil
		p.add(l.spell(labels.Ready), reasonNotPublished, "%s, so it is never ready: publish the port", settings.NeverReady)
	}
	load.Ready, load.Reason = readiness(c, &settings)
	load.Problems = p.found()
	return load, nil
}

// originOf returns the Compose project of a container as Workload.Origin.
func originOf(c *container) string {
	if project := c.Config.Labels[composeProject]; project != "" {
		return "compose project " + shorten(project)
	}
	return ""
}

// terminating reports whether the container was asked to stop and still has time to do so.
func (r *reader) terminating(c *container, drain time.Duration) bool {
	until := r.signals.stopsUntil(c, drain)
	if !until.After(r.now) {
		return false
	}
	if r.next.IsZero() || until.Before(r.next) {
		r.next = until
	}
	return true
}

// readiness reports whether a container is ready according to its labels and its state in the engine. It
// returns the reason if it is not.
func readiness(c *container, settings *labels.Settings) (ready bool, reason string) {
	switch {
	case settings.NeverReady != "":
		return false, settings.NeverReady
	case c.paused():
		return false, "the container is paused"
	case c.State.Health == nil:
		return true, ""
	}
	switch c.State.Health.Status {
	case "", "none", "healthy":
		return true, ""
	case "starting":
		return false, "its HEALTHCHECK has not succeeded since it was started"
	}
	return false, "its HEALTHCHECK fails"
}
