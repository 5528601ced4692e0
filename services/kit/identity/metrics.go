package identity

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	reloads  *prometheus.CounterVec
	refusals prometheus.Counter
}

// newMetrics registers the metrics of a source; reg may be nil.
func newMetrics(reg prometheus.Registerer, s *Source) *metrics {
	m := &metrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_tls_reloads_total",
			Help: "Changed certificate files that were read, by outcome: taken or refused.",
		}, []string{"outcome"}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_tls_refused_connections_total",
			Help: "Connections refused in the TLS handshake: no certificate, or one that is not trusted.",
		}),
	}
	for _, outcome := range []string{"taken", "refused"} {
		m.reloads.WithLabelValues(outcome)
	}
	if reg != nil {
		reg.MustRegister(m.reloads, m.refusals, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_tls_certificate_expiry_timestamp_seconds",
			Help: "When the certificate in use expires, in seconds since the epoch.",
		}, func() float64 { return float64(s.Expires().Unix()) }))
	}
	return m
}
