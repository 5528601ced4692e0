package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/object"
	"portolan.dev/services/queue"
)

type metrics struct {
	syncs    *prometheus.CounterVec
	duration prometheus.Histogram
	delay    prometheus.Histogram
	collect  prometheus.Histogram
	changes  prometheus.Histogram
	writes   *prometheus.CounterVec
	perCall  prometheus.Histogram
	calls    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, bounds queue.Options, pending, failing func() int) *metrics {
	buckets := prometheus.ExponentialBuckets(0.001, 2, 16)
	m := &metrics{
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_endpointctl_syncs_total", Help: "Services synced, by result: ok or error.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_endpointctl_sync_seconds", Help: "Time of one sync.", Buckets: buckets,
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_endpointctl_propagation_seconds", Help: "Time from the first change of a service to the end of the sync that wrote it.", Buckets: buckets,
		}),
		collect: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_endpointctl_collect_seconds", Help: "Time for which the changes of a service are collected: from the first one to the start of the sync.", Buckets: buckets,
		}),
		changes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_endpointctl_sync_changes", Help: "Changes of a service that one sync covers.", Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		perCall: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_endpointctl_call_writes", Help: "Objects that one call to the registry writes.", Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_endpointctl_call_seconds", Help: "Time of one call that writes objects.", Buckets: buckets,
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_endpointctl_writes_total", Help: "Objects written, by kind and operation.",
		}, []string{"kind", "op"}),
	}
	limits := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "portolan_endpointctl_collect_bound_seconds", Help: "Bounds of the time for which changes are collected, as configured: quiet (without further changes) and longest.",
	}, []string{"bound"})
	limits.WithLabelValues("quiet").Set(bounds.Quiet.Seconds())
	limits.WithLabelValues("longest").Set(bounds.Longest.Seconds())
	reg.MustRegister(limits, m.syncs, m.duration, m.delay, m.collect, m.changes, m.writes, m.perCall, m.calls, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_endpointctl_pending", Help: "Services that are due or being synced.",
	}, func() float64 { return float64(pending()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_endpointctl_failing_services", Help: "Services whose endpoints the registry refuses, or whose syncs have failed for 10 seconds or more, according to the replica that syncs them.",
	}, func() float64 { return float64(failing()) }))
	return m
}

// synced counts the sync of a service that was due.
func (m *metrics) synced(due queue.Due[object.Name], begin time.Time, wrote bool, err error) {
	m.duration.Observe(time.Since(begin).Seconds())
	if due.Changes > 0 {
		m.collect.Observe(begin.Sub(due.Added).Seconds())
		m.changes.Observe(float64(due.Changes))
	}
	if err != nil {
		m.syncs.WithLabelValues("error").Inc()
		return
	}
	m.syncs.WithLabelValues("ok").Inc()
	if wrote && due.Changes > 0 {
		m.delay.Observe(time.Since(due.Added).Seconds())
	}
}

// called counts a call that writes objects.
func (m *metrics) called(writes int, took time.Duration) {
	m.perCall.Observe(float64(writes))
	m.calls.Observe(took.Seconds())
}
