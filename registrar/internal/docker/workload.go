package docker

import (
	"time"

	"portolan.dev/registrar/internal/terms"
	"portolan.dev/registrar/source"
)

// reader makes workloads of containers.
type reader struct {
	options *Options
	signals signals
	now     time.Time
	// lookUp returns a container that runs, or nil.
	lookUp func(id string) *container
	// next is the earliest time at which a workload changes because time has passed; zero: none does.
	next time.Time
}

// workload returns the workload of a container, or nil if there is none, and what is wrong with it. The
// problems of a workload are in it, too.
func (r *reader) workload(c *container) (*source.Workload, []source.Problem) {
	p := &problems{object: c.name()}
	w := r.options.wordsOf(c, p)
	if !w.wanted(p) {
		return nil, p.found()
	}
	t, wrong := (&terms.Reader{Object: p.object, Spell: w.spell, Known: ownWords}).Read(w.values)
	p.list = append(p.list, wrong...)
	_, namespaced := w.values[terms.Namespace]
	if t.Service == "" || namespaced && t.Namespace == "" { // in another namespace it would be a backend of another service
		return nil, p.found()
	}
	ports := w.portsOf(c, t.Ports, p)
	if len(ports) == 0 {
		return nil, p.found()
	}
	at, found := r.placeOf(c, w, ports, p)
	if !found {
		return nil, p.found()
	}
	load := &source.Workload{
		ID: c.ID, Name: p.object, Origin: originOf(c),
		Namespace: t.Namespace, Service: t.Service,
		Ports: at.ports, Addresses: at.addresses, HostNetwork: at.hostNetwork,
		Labels: t.Labels, Weight: t.Weight, Drain: t.Drain,
		Probe: t.Probe, Terminating: r.terminating(c, t.Drain),
	}
	if load.Drain == 0 {
		load.Drain = c.stopTimeout()
	}
	if at.published && !publishProbe(t.Probe, at.ports) {
		t.NeverReady = w.spell(terms.Ready) + " checks a port that is not published"
		load.Probe = nil
		p.add(w.spell(terms.Ready), reasonNotPublished, "%s, so it is never ready: publish the port", t.NeverReady)
	}
	load.Ready, load.Reason = readiness(c, &t)
	load.Problems = p.found()
	return load, nil
}

// originOf names what a container belongs to.
func originOf(c *container) string {
	if project := c.Config.Labels[composeProject]; project != "" {
		return "compose project " + shorten(project)
	}
	return ""
}

// terminating reports whether the container was asked to stop, and is about to.
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

// readiness reports whether a container is ready by what the engine knows, and why it is not.
func readiness(c *container, t *terms.Terms) (ready bool, reason string) {
	switch {
	case t.NeverReady != "":
		return false, t.NeverReady
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
