package audit

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a log.
type metrics struct {
	lines, errors prometheus.Counter
	dropped       [causes]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		lines: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_audit_lines_total", Help: "Lines written to the audit log.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_audit_errors_total", Help: "Writes to the audit log that failed, for example because the disk is full.",
		}),
	}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_audit_dropped_total",
		Help: "Lines missing in the audit log, by cause: queue (the disk is too slow), disk (it cannot be written) or rate (one caller was refused too often).",
	}, []string{"cause"})
	for why := range causes {
		m.dropped[why] = dropped.WithLabelValues(why.String())
	}
	reg.MustRegister(m.lines, m.errors, dropped)
	return m
}
