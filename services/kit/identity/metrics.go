package identity

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	reloads  *prometheus.CounterVec
	refusals prometheus.Counter
	renewals *prometheus.CounterVec
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
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_tls_renewals_total",
			Help: "Attempts to renew the certificate at a registry, by outcome: renewed, failed, or unsaved if the renewed one is in use but could not be stored.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeRenewed, outcomeFailed, outcomeUnsaved} {
		m.renewals.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"taken", "refused"} {
		m.reloads.WithLabelValues(outcome)
	}
	if reg != nil {
		reg.MustRegister(m.reloads, m.refusals, m.renewals, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_tls_certificate_expiry_timestamp_seconds",
			Help: "When the certificate in use expires, in seconds since the epoch.",
		}, func() float64 { return float64(s.Expires().Unix()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_tls_certificate_lifetime_seconds",
			Help: "Time from the start to the end of the validity of the certificate in use.",
		}, func() float64 { return s.Expires().Sub(s.Certificate().NotBefore).Seconds() }))
	}
	return m
}
