package lbctl

import "github.com/prometheus/client_golang/prometheus"

// registerMetrics registers the daemon's own metrics. The controller, the providers and the follower
// register theirs.
func (d *Daemon) registerMetrics(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_lbctl_leader", Help: "Whether this replica leads.",
	}, func() float64 { return float64(min(d.epoch.Load(), 1)) }))
}
