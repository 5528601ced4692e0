package registry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// observeBatches returns a function that records the size and the duration of each group commit.
func observeBatches(metrics prometheus.Registerer) func(int, time.Duration) {
	size := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "portolan_registry_commit_writes", Help: "Writes in one commit.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
	})
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "portolan_registry_commit_duration_seconds", Help: "Time of one commit.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10},
	})
	metrics.MustRegister(size, duration)
	return func(writes int, took time.Duration) {
		size.Observe(float64(writes))
		duration.Observe(took.Seconds())
	}
}
