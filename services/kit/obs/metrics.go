package obs

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewMetrics returns a metrics registry with what every daemon shows: the
// process, the Go runtime, and portolan_build_info.
func NewMetrics() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	version, revision := buildVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "portolan_build_info",
		Help:        "Always 1; the labels say what was built.",
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

// buildVersion reads what the linker recorded; both may be "unknown" in a build
// outside of version control.
func buildVersion() (version, revision string) {
	version, revision = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision
}
