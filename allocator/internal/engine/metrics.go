package engine

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// Values of the label scope (requested explicitly, or any value) and of the label band.
const (
	scopeStatic  = "static"
	scopeDynamic = "dynamic"
)

type metrics struct {
	allocations *prometheus.CounterVec
	errors      *prometheus.CounterVec
	batchSize   prometheus.Histogram
	batchTime   prometheus.Histogram
	closed      prometheus.Counter
	ignored     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, pools func() []allocation.PoolStatus, reserves func() []store.Reserve) *metrics {
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
		closed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_allocator_reserves_closed_total",
			Help: "Reserves closed because their holders were not heard, or because the allocator or the registry's log began anew.",
		}),
		ignored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_allocator_settlements_ignored_total",
			Help: "Settlements and returns of values that were no longer in the reserve.",
		}),
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_allocator_reserves", Help: "Registry processes that may have values at hand.",
	}, func() float64 { return float64(len(reserves())) })
	reg.MustRegister(m.allocations, m.errors, m.batchSize, m.batchTime, m.closed, m.ignored, open, newPoolCollector(pools))
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
	bandUsed, bandSize, reserved  *prometheus.Desc
}

func newPoolCollector(pools func() []allocation.PoolStatus) *poolCollector {
	label, band := []string{"pool"}, []string{"pool", "band"}
	return &poolCollector{
		pools:     pools,
		allocated: prometheus.NewDesc("portolan_allocator_allocated", "Values in use.", label, nil),
		available: prometheus.NewDesc("portolan_allocator_available", "Values not in use that are given unasked; those at rest or at hand at registries count.", label, nil),
		resting:   prometheus.NewDesc("portolan_allocator_resting", "Values released lately, which are the last to be used again.", label, nil),
		reserved:  prometheus.NewDesc("portolan_allocator_reserved", "Values at hand at registries, for services of the future.", label, nil),
		bandUsed:  prometheus.NewDesc("portolan_allocator_band_used", "Values in use, by band: static (left to explicit requests while others are free) or dynamic.", band, nil),
		bandSize:  prometheus.NewDesc("portolan_allocator_band_size", "Number of values, by band: static or dynamic.", band, nil),
	}
}

// Describe implements prometheus.Collector.
func (f *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- f.allocated
	ch <- f.available
	ch <- f.resting
	ch <- f.reserved
	ch <- f.bandUsed
	ch <- f.bandSize
}

// Collect implements prometheus.Collector.
func (f *poolCollector) Collect(ch chan<- prometheus.Metric) {
	for _, p := range f.pools() {
		ch <- prometheus.MustNewConstMetric(f.allocated, prometheus.GaugeValue, float64(p.Used), p.Name)
		ch <- prometheus.MustNewConstMetric(f.available, prometheus.GaugeValue, float64(p.Size-p.Used-p.Avoided), p.Name)
		ch <- prometheus.MustNewConstMetric(f.resting, prometheus.GaugeValue, float64(p.Resting), p.Name)
		ch <- prometheus.MustNewConstMetric(f.reserved, prometheus.GaugeValue, float64(p.Reserved), p.Name)
		ch <- prometheus.MustNewConstMetric(f.bandUsed, prometheus.GaugeValue, float64(p.StaticUsed), p.Name, scopeStatic)
		ch <- prometheus.MustNewConstMetric(f.bandUsed, prometheus.GaugeValue, float64(p.Used-p.StaticUsed), p.Name, scopeDynamic)
		ch <- prometheus.MustNewConstMetric(f.bandSize, prometheus.GaugeValue, float64(p.StaticSize), p.Name, scopeStatic)
		ch <- prometheus.MustNewConstMetric(f.bandSize, prometheus.GaugeValue, float64(p.Size-p.StaticSize), p.Name, scopeDynamic)
	}
}
