package userspace

import "github.com/prometheus/client_golang/prometheus"

// metrics are the proxy's metrics.
type metrics struct {
	sockets      prometheus.Gauge
	active       prometheus.Gauge
	flows        prometheus.Gauge
	connections  *prometheus.CounterVec
	dialFailures prometheus.Counter
	dropped      *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		sockets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_nodeagent_userspace_sockets", Help: "Frontends that are listened on now.",
		}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_nodeagent_userspace_connections_active", Help: "TCP connections that are forwarded now.",
		}),
		flows: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_nodeagent_userspace_flows_active", Help: "UDP flows that are forwarded now.",
		}),
		connections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_userspace_connections_total",
			Help: "TCP connections accepted, by result: served, denied (source ranges, policy) or no_backend.",
		}, []string{"result"}),
		dialFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_nodeagent_userspace_dial_failures_total",
			Help: "Dials to backends that failed and were repeated with another backend.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_userspace_datagrams_dropped_total",
			Help: "UDP datagrams dropped, by reason.",
		}, []string{"reason"}),
	}
	if reg != nil {
		reg.MustRegister(m.sockets, m.active, m.flows, m.connections, m.dialFailures, m.dropped)
	}
	return m
}
