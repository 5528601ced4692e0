package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewMetrics returns a metrics registry with the metrics of every daemon: the process, the Go
// runtime, and portolan_build_info.
func NewMetrics() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	version, revision := buildVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "portolan_build_info",
		Help:        "Always 1; the labels identify the build.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision},
	})
	info.Set(1)
	reg.MustRegister(
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return reg
}
