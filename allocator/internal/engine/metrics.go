package engine

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/allocator/internal/allocation"
)

// Values of the label scope: requested explicitly, or any value.
const (
	scopeStatic  = "static"
	scopeDynamic = "dynamic"
)

type metrics struct {
	allocations *prometheus.CounterVec
	errors      *prometheus.CounterVec
	batchSize   prometheus.Histogram
	batchTime   prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, pools func() []allocation.PoolStatus) *metrics {
	m := &metrics{
		allocations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_allocator_allocations_total",
			Help: "Values allocated, by pool and by whether the value was requested (static) or chosen (dynamic).",
		}, []string{"pool", "scope"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_allocator_allocation_errors_total",
			Help: "Claims that could not be served, by pool (empty: none fits) and scope.",
		}, []string{"pool", "scope"}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "portolan_allocator_batch_requests",
			Help:    "Requests per transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		batchTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "portolan_allocator_batch_seconds",
			Help:    "Time per transaction.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
	}
	reg.MustRegister(m.allocations, m.errors, m.batchSize, m.batchTime, newPoolCollector(pools))
	return m
}

func (m *metrics) observe(items int, took time.Duration) {
	m.batchSize.Observe(float64(items))
	m.batchTime.Observe(took.Seconds())
}

// count counts the allocated values and the failures of sets.
func (m *metrics) count(sets []Set, results []SetResult) {
	for i, r := range results {
		for _, g := range r.Results {
			if g.New {
				m.allocations.WithLabelValues(g.Pool, scope(g.Static)).Inc()
			}
		}
		for _, f := range r.Failures {
			m.errors.WithLabelValues(f.Pool, scope(wasStatic(sets[i], f.Slot))).Inc()
		}
	}
}

func wasStatic(s Set, slot string) bool {
	return slices.ContainsFunc(s.Requests, func(w allocation.ClaimRequest) bool { return w.Slot == slot && w.Value != "" })
}

func scope(static bool) string {
	if static {
		return scopeStatic
	}
	return scopeDynamic
}

// poolCollector reads the fill levels of the pools when it is scraped.
type poolCollector struct {
	pools                         func() []allocation.PoolStatus
	allocated, available, resting *prometheus.Desc
}

func newPoolCollector(pools func() []allocation.PoolStatus) *poolCollector {
	label := []string{"pool"}
	return &poolCollector{
		pools:     pools,
		allocated: prometheus.NewDesc("portolan_allocator_allocated", "Values in use.", label, nil),
		available: prometheus.NewDesc("portolan_allocator_available", "Values not in use; those at rest count.", label, nil),
		resting:   prometheus.NewDesc("portolan_allocator_resting", "Values released lately, which are the last to be used again.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (f *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- f.allocated
	ch <- f.available
	ch <- f.resting
}

// Collect implements prometheus.Collector.
func (f *poolCollector) Collect(ch chan<- prometheus.Metric) {
	for _, p := range f.pools() {
		ch <- prometheus.MustNewConstMetric(f.allocated, prometheus.GaugeValue, float64(p.Used), p.Name)
		ch <- prometheus.MustNewConstMetric(f.available, prometheus.GaugeValue, float64(p.Size-p.Used), p.Name)
		ch <- prometheus.MustNewConstMetric(f.resting, prometheus.GaugeValue, float64(p.Resting), p.Name)
	}
}
