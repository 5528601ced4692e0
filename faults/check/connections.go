package check

import (
	"net/netip"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/faults/history"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Connections checks that an established connection through a virtual IP ends only if its backend
// or its service is deleted, and that new connections reach backends of the service.
type Connections struct {
	// Lag is how long a node may send new connections to a backend that was removed from the
	// service.
	Lag time.Duration
	// LossExpected reports whether the loss of a connection has another known reason, for example
	// that the backend's machine was switched off. Nil means that there are none.
	LossExpected func(history.Connection) bool
}

// Name implements Checker.
func (Connections) Name() string { return "connections" }

// Check implements Checker.
func (c Connections) Check(h *history.History) []Finding {
	x := findings{check: c.Name()}
	timelines := map[netip.AddrPort][]timedValue[frontendBackends]{}
	timeline := func(target netip.AddrPort) []timedValue[frontendBackends] {
		if timelines[target] == nil {
			timelines[target] = backendsOverTime(h, target)
		}
		return timelines[target]
	}
	for _, conn := range h.Connections {
		if conn.Lost.IsZero() || !conn.Lost.Before(h.Log.ReadAt) || c.LossExpected != nil && c.LossExpected(conn) {
			continue
		}
		states := valuesBetween(h, timeline(conn.Target), conn.Began, conn.Lost, 0)
		if !slices.ContainsFunc(states, func(b frontendBackends) bool { return !b.has(conn.Backend) }) {
			x.add(states[0].service, "%s lost a connection to %s after %s, though the service had the backend %s all the time: %s",
				conn.Client, conn.Target, conn.Lost.Sub(conn.Began).Round(time.Millisecond), conn.Backend, conn.Error)
		}
	}
	for _, a := range h.Probes {
		if a.Error != "" || !a.Ended.Before(h.Log.ReadAt) {
			continue
		}
		states := valuesBetween(h, timeline(a.Target), a.Began, a.Ended, c.Lag)
		if !slices.ContainsFunc(states, func(b frontendBackends) bool { return b.has(a.Backend) }) {
			x.add(object.Key{Kind: "Service"}, "%s reached %s through %s, which is not a backend of the service", a.Client, a.Backend, a.Target)
		}
	}
	return x.all()
}

// frontendBackends is the service at an address and port, and its backends.
type frontendBackends struct {
	service  object.Key
	backends []string
}

func (b frontendBackends) has(backend netip.AddrPort) bool {
	return slices.Contains(b.backends, backend.String())
}

// backendsOverTime returns the service and backends of an address and port over time. The address
// is a virtual IP or a node's address.
func backendsOverTime(h *history.History, target netip.AddrPort) []timedValue[frontendBackends] {
	owners := map[object.Key]bool{}
	addOwner := func(o object.Object) {
		svc, ok := o.(*corev1.Service)
		if ok && (slices.Contains(addressesOf(svc), target.Addr().String()) || slices.Contains(nodePortsOf(svc), int32(target.Port()))) {
			owners[object.KeyOf(o)] = true
		}
	}
	for _, o := range h.Log.Objects {
		addOwner(o)
	}
	for s := range h.Log.Steps() {
		addOwner(s.New)
	}
	return timelineOf(h, owners, func(w *model.World) frontendBackends {
		for _, f := range w.Frontends([]netip.Addr{target.Addr()}) {
			if f.Address == target && f.Protocol == corev1.Protocol_PROTOCOL_TCP {
				return frontendBackends{object.KeyOf(f.Service), f.Backends}
			}
		}
		return frontendBackends{}
	})
}

// addressesOf returns the virtual addresses of a service.
func addressesOf(svc *corev1.Service) []string {
	return slices.Concat(svc.GetSpec().GetClusterIps(), svc.GetSpec().GetExternalIps())
}

// nodePortsOf returns the node ports of a service.
func nodePortsOf(svc *corev1.Service) []int32 {
	var ports []int32
	for _, p := range svc.GetSpec().GetPorts() {
		if p.GetNodePort() > 0 {
			ports = append(ports, p.GetNodePort())
		}
	}
	return ports
}
