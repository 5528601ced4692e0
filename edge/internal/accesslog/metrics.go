package accesslog

import "github.com/prometheus/client_golang/prometheus"

// cause is the reason why a line is missing.
type cause int

// The causes.
const (
	causeQueue cause = iota // more lines were waiting than the limits allow
	causeDisk               // the line could not be written
	causes
)

// String returns the value of the metric's label cause.
func (c cause) String() string { return [causes]string{"queue", "disk"}[c] }

// metrics are the metrics of all access logs.
type metrics struct {
	lines   prometheus.Counter
	dropped [causes]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{lines: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "portolan_edge_access_log_lines_total", Help: "Lines of access logs that were written.",
	})}
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_edge_access_log_dropped_total", Help: "Lines of access logs that are missing, by cause (queue: too many were waiting; disk: it could not be written).",
	}, []string{"cause"})
	for c := range causes {
		m.dropped[c] = dropped.WithLabelValues(c.String())
	}
	reg.MustRegister(m.lines, dropped)
	return m
}
