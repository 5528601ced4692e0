package nodeagent

import (
	"github.com/prometheus/client_golang/prometheus"
)

// registerMetrics registers the mode in use and the age of the view.
func (d *Daemon) registerMetrics() {
	mode := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_proxy_mode", Help: "1 for the proxy mode in use.",
	}, []string{"mode"})
	mode.WithLabelValues(d.plane.Name()).Set(1)
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_view_age_seconds", Help: "Time since the view that the node forwards by was last known to be current.",
	}, func() float64 { return d.home.Age(d.follower).Seconds() })
	d.host.Metrics.MustRegister(mode, age)
}
