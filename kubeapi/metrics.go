package kubeapi

import "github.com/prometheus/client_golang/prometheus"

// registerMetrics registers the daemon's own metrics. The server and the follower register theirs.
func (d *Daemon) registerMetrics(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_kubeapi_watches", Help: "Watches that are open.",
	}, func() float64 { return float64(d.server.Watches()) }))
}
