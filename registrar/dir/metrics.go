package dir

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	attempts *prometheus.CounterVec
	changes  *prometheus.CounterVec
	objects  prometheus.Gauge
	problems prometheus.Gauge
	applied  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registrar_dir_attempts_total", Help: "Attempts to apply the folder, by result (ok, error).",
		}, []string{"result"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registrar_dir_changes_total", Help: "Objects that were changed to be as the folder says, by action (created, configured, pruned).",
		}, []string{"action"}),
		objects: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_registrar_dir_objects", Help: "Objects in the manifests of the folder.",
		}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_registrar_dir_problems", Help: "Problems of the last attempt to apply the folder, which portolan registrar status lists.",
		}),
		applied: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_registrar_dir_applied_timestamp_seconds", Help: "When the folder was last applied without a problem, in seconds since the epoch. 0: never.",
		}),
	}
	for _, result := range []string{"ok", "error"} {
		m.attempts.WithLabelValues(result)
	}
	for _, action := range []string{"created", "configured", "pruned"} {
		m.changes.WithLabelValues(action)
	}
	reg.MustRegister(m.attempts, m.changes, m.objects, m.problems, m.applied)
	return m
}

// record counts an attempt.
func (m *metrics) record(s *Status) {
	result := "ok"
	if len(s.Problems) > 0 {
		result = "error"
	} else {
		m.applied.Set(float64(s.Applied.UnixNano()) / 1e9)
	}
	m.attempts.WithLabelValues(result).Inc()
	m.changes.WithLabelValues("created").Add(float64(s.Created))
	m.changes.WithLabelValues("configured").Add(float64(s.Configured))
	m.changes.WithLabelValues("pruned").Add(float64(s.Pruned))
	m.objects.Set(float64(s.Objects))
	m.problems.Set(float64(len(s.Problems)))
}
