package systemd

import (
	"fmt"
	"slices"

	"portolan.dev/registrar/internal/labels"
	"portolan.dev/registrar/source"
)

// The values of ActiveState in which a unit is registered.
const (
	active       = "active"
	reloading    = "reloading"
	refreshing   = "refreshing" // since systemd 257
	deactivating = "deactivating"
)

// runs reports whether a unit runs. An activating unit does not run yet: its start has not finished, which
// for Type=notify means that it has not sent READY=1, or it waits to be restarted after a crash.
func runs(l listed) bool {
	return slices.Contains([]string{active, reloading, refreshing, deactivating}, l.ActiveState)
}

// stops reports whether a unit stops, or has a job to stop that waits for other units.
func (u *unit) stops() bool {
	return u.ActiveState == deactivating || u.JobType == "stop" || u.JobType == "restart"
}

// registered reports whether the unit's files register it as a backend of a service.
func (u *unit) registered() bool { return u.description.Service != "" && !u.description.refused }

// workload returns the workload of a registered unit, or the problem that keeps it from being registered.
func (u *unit) workload() (source.Workload, *source.Problem) {
	d := &u.description
	if problem := u.unusable(); problem != nil {
		return source.Workload{}, problem
	}
	w := source.Workload{
		ID: u.Name, Name: shortName(u.Name), Namespace: d.Namespace, Service: d.Service,
		Ports: d.Ports, Addresses: d.addresses, HostNetwork: len(d.addresses) == 0,
		Labels: d.Labels, Weight: d.Weight, Drain: d.Drain,
		Terminating: u.stops(), Problems: slices.Clone(d.problems),
	}
	w.Ready, w.Reason = u.ready()
	if d.NeverReady == "" {
		w.Probe = d.Probe
	}
	return w, nil
}

// unusable returns the problem of a unit that has no usable address or ports, or nil.
func (u *unit) unusable() *source.Problem {
	key := spell(labels.Port + "NAME")
	switch ports := len(u.description.Ports); {
	case u.isolated && len(u.description.addresses) == 0:
		return u.problem(spell(labels.Address), source.ReasonNoAddress, fmt.Sprintf("the unit has a network namespace of its own (PrivateNetwork= or NetworkNamespacePath=), so it is not registered; "+
			"name the address at which other machines reach it with %s=", spell(labels.Address)))
	case ports == 0:
		return u.problem(key, source.ReasonNoPorts, fmt.Sprintf("the unit has no port, so it is not registered; add one, such as %s=8000", spell(labels.Port+"http")))
	case ports > labels.MaxPorts:
		return u.problem(key, source.ReasonAmbiguous, fmt.Sprintf("the unit has %d ports, so it is not registered; a unit has at most %d", ports, labels.MaxPorts))
	}
	return nil
}

func (u *unit) problem(field, reason, message string) *source.Problem {
	return &source.Problem{Object: u.Name, Field: field, Reason: reason, Message: message}
}

// ready reports whether a unit is ready. If it is not, it also returns the reason. A unit that stops is ready
// as long as its main process runs, because it can serve clients until then if there is no other backend.
func (u *unit) ready() (bool, string) {
	switch {
	case u.description.NeverReady != "":
		return false, u.description.NeverReady
	case u.ActiveState == deactivating && u.mainPID == 0:
		return false, fmt.Sprintf("the unit is %s (%s), and its main process has ended", u.ActiveState, u.SubState)
	}
	return true, ""
}
