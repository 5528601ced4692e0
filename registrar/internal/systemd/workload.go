package systemd

import (
	"fmt"
	"slices"

	"portolan.dev/registrar/internal/terms"
	"portolan.dev/registrar/source"
)

// The states of a unit, its ActiveState, in which it is registered.
const (
	active       = "active"
	reloading    = "reloading"
	refreshing   = "refreshing" // since systemd 257
	deactivating = "deactivating"
)

// runs reports whether a unit runs. One that is activating does not run yet: systemd has not finished
// its start, which for Type=notify means that it has not sent READY=1. It may also wait for the next
// attempt after a crash.
func runs(l listed) bool {
	return slices.Contains([]string{active, reloading, refreshing, deactivating}, l.ActiveState)
}

// stops reports whether a unit was asked to stop, also if its job waits for other units.
func (u *unit) stops() bool {
	return u.ActiveState == deactivating || u.JobType == "stop" || u.JobType == "restart"
}

// registered reports whether the unit's files make it a backend of a service.
func (u *unit) registered() bool { return u.description.Service != "" && !u.description.refused }

// workload returns the workload of a registered unit, or the problem because of which there is none.
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

// unusable returns why a unit cannot be reached, or nil.
func (u *unit) unusable() *source.Problem {
	key := spell(terms.Port + "NAME")
	switch ports := len(u.description.Ports); {
	case u.isolated && len(u.description.addresses) == 0:
		return u.problem(spell(address), source.ReasonNoAddress, fmt.Sprintf("the unit has a network namespace of its own (PrivateNetwork= or NetworkNamespacePath=), so it is not registered; "+
			"name the address at which other machines reach it with %s=", spell(address)))
	case ports == 0:
		return u.problem(key, source.ReasonNoPorts, fmt.Sprintf("the unit has no port, so it is not registered; add one, such as %s=8000", spell(terms.Port+"http")))
	case ports > terms.MaxPorts:
		return u.problem(key, source.ReasonAmbiguous, fmt.Sprintf("the unit has %d ports, so it is not registered; a unit has at most %d", ports, terms.MaxPorts))
	}
	return nil
}

func (u *unit) problem(field, reason, message string) *source.Problem {
	return &source.Problem{Object: u.Name, Field: field, Reason: reason, Message: message}
}

// ready reports whether a unit is ready, and why it is not. A unit that stops is ready as long as its
// main process runs, because clients may be served until then if there is no other backend.
func (u *unit) ready() (bool, string) {
	switch {
	case u.description.NeverReady != "":
		return false, u.description.NeverReady
	case u.ActiveState == deactivating && u.mainPID == 0:
		return false, fmt.Sprintf("the unit is %s (%s), and its main process has ended", u.ActiveState, u.SubState)
	}
	return true, ""
}
