package bgp

import (
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/machine"
)

type metrics struct {
	sessions, changes *prometheus.CounterVec
	up                *prometheus.GaugeVec
}

// newMetrics registers the metrics. The metrics of peers have no series if there are no peers.
func newMetrics(reg prometheus.Registerer, a *Advertiser) *metrics {
	m := &metrics{
		sessions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_bgp_session_changes_total", Help: "Sessions with a BGP peer that have begun or ended, by change (began, ended).",
		}, []string{"peer", "change"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_bgp_route_changes_total", Help: "Addresses that the node has begun or ended to advertise by BGP, by change (advertised, withdrawn).",
		}, []string{"change"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "portolan_nodeagent_bgp_peer_up", Help: "1 if the session with a BGP peer is established, otherwise 0.",
		}, []string{"peer"}),
	}
	m.changes.WithLabelValues("advertised")
	m.changes.WithLabelValues("withdrawn")
	routes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_bgp_advertised_routes", Help: "Addresses that the node advertises by BGP now.",
	}, func() float64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		return float64(len(a.advertised))
	})
	reg.MustRegister(m.sessions, m.up, m.changes, routes)
	for _, peer := range a.peers {
		name := nameOf(peer)
		m.up.WithLabelValues(name)
		m.sessions.WithLabelValues(name, "began")
		m.sessions.WithLabelValues(name, "ended")
	}
	return m
}

// nameOf returns the label of a peer.
func nameOf(peer machine.SpeakerPeer) string { return peer.Addr.Addr().String() }

// session records the beginning or the end of a session.
func (m *metrics) session(peer machine.SpeakerPeer, established bool) {
	name := nameOf(peer)
	if established {
		m.up.WithLabelValues(name).Set(1)
		m.sessions.WithLabelValues(name, "began").Inc()
		return
	}
	m.up.WithLabelValues(name).Set(0)
	m.sessions.WithLabelValues(name, "ended").Inc()
}

// changed counts a change of the routes.
func (m *metrics) changed(advertised, withdrawn int) {
	m.changes.WithLabelValues("advertised").Add(float64(advertised))
	m.changes.WithLabelValues("withdrawn").Add(float64(withdrawn))
}
