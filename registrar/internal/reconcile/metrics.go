package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ syncs *prometheus.CounterVec }

func newMetrics(reg prometheus.Registerer, r *Reconciler) *metrics {
	m := &metrics{syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_registrar_syncs_total", Help: "Pods compared with their workloads, by result: ok or error.",
	}, []string{"result"})}
	for _, result := range []string{"ok", "error"} {
		m.syncs.WithLabelValues(result)
	}
	reg.MustRegister(m.syncs, &sourceCounts{r}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_registrar_pending", Help: "Pods that are due or being written.",
	}, func() float64 { return float64(r.queue.Len()) }))
	return m
}

func (m *metrics) synced(err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.syncs.WithLabelValues(result).Inc()
}

var (
	connectedDesc = prometheus.NewDesc("portolan_registrar_source_connected", "Whether a source sees its workloads.", []string{"source"}, nil)
	workloadsDesc = prometheus.NewDesc("portolan_registrar_workloads", "Workloads that a source reports.", []string{"source"}, nil)
	problemsDesc  = prometheus.NewDesc("portolan_registrar_problems", "Problems of a source's workloads, which portolan registrar status lists.", []string{"source"}, nil)
)

// sourceCounts is the collector of the metrics about sources. It computes them from Status.
type sourceCounts struct{ r *Reconciler }

// Describe implements prometheus.Collector.
func (s *sourceCounts) Describe(out chan<- *prometheus.Desc) {
	out <- connectedDesc
	out <- workloadsDesc
	out <- problemsDesc
}

// Collect implements prometheus.Collector.
func (s *sourceCounts) Collect(out chan<- prometheus.Metric) {
	for _, source := range s.r.Status() {
		connected, faults := 0.0, len(source.Problems)
		if source.Connected {
			connected = 1
		}
		for _, w := range source.Workloads {
			faults += len(w.Problems)
		}
		for desc, value := range map[*prometheus.Desc]float64{connectedDesc: connected, workloadsDesc: float64(len(source.Workloads)), problemsDesc: float64(faults)} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, source.Name)
		}
	}
}
