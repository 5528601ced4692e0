package dnssvc

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the names. The server has its own metrics of questions.
type metrics struct {
	apply prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, d *Daemon) *metrics {
	m := &metrics{apply: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "portolan_dnssvc_apply_duration_seconds",
		Help:    "Time from a batch of changes to the names that follow from it.",
		Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3},
	})}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "portolan_dnssvc_" + name, Help: help}, value)
	}
	reg.MustRegister(d.dns, m.apply,
		gauge("revision", "Revision of the log that is served.", func() float64 { return float64(d.table.Snapshot().Revision) }),
		gauge("data_age_seconds", "Time since the names were last known to be current.", func() float64 { return d.age().Seconds() }),
		gauge("view_from_disk", "Whether answers come from the view on disk, because the registry has not answered since the start.", func() float64 {
			if d.home.OnDisk() {
				return 1
			}
			return 0
		}),
		gauge("names", "Names served.", func() float64 { return float64(d.table.Snapshot().Size()) }),
		gauge("serial", "Serial number of the SOA records.", func() float64 { return float64(d.table.Snapshot().Serial) }),
	)
	return m
}
