package endpointctl

import (
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/lease"
)

// registerMetrics registers the daemon's own metrics. The controller and the follower register
// theirs.
func (d *Daemon) registerMetrics(reg prometheus.Registerer) {
	gauge := func(name, help string, value func() int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("portolan_endpointctl_leader", "Whether this replica leads: it holds shard 0, and sets the readiness of nodes.", func() int {
		return int(min(d.held.epoch(nodesShard), 1))
	})
	gauge("portolan_endpointctl_shards", "Shards into which this replica divides the services.", func() int { return d.cfg.Shards })
	gauge("portolan_endpointctl_held_shards", "Shards that this replica holds.", func() int { return len(d.held.shards()) })
	gauge("portolan_endpointctl_waiting", "Whether this replica takes no shards because other replicas have another number of them.", func() int {
		return min(len(d.held.waiting()), 1)
	})
	d.moves = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_endpointctl_shard_moves_total", Help: "Moves of shards: taken by this replica, given-up by it, or lost because the lease could not be renewed.",
	}, []string{"move"})
	for _, move := range []lease.Move{lease.Taken, lease.GivenUp, lease.Lost} {
		d.moves.WithLabelValues(string(move))
	}
	reg.MustRegister(d.moves)
}

func (d *Daemon) countMove(_ int, move lease.Move) { d.moves.WithLabelValues(string(move)).Inc() }
