package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	syncs    *prometheus.CounterVec
	duration prometheus.Histogram
	delay    prometheus.Histogram
	writes   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, pending, failing func() int) *metrics {
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
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_endpointctl_writes_total", Help: "Objects written, by kind and operation.",
		}, []string{"kind", "op"}),
	}
	reg.MustRegister(m.syncs, m.duration, m.delay, m.writes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_endpointctl_pending", Help: "Services that are due or being synced.",
	}, func() float64 { return float64(pending()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_endpointctl_failing_services", Help: "Services whose syncs have failed for 10 seconds or more, according to the leader.",
	}, func() float64 { return float64(failing()) }))
	return m
}

// synced counts a sync.
func (m *metrics) synced(err error, wrote bool, took, delay time.Duration) {
	m.duration.Observe(took.Seconds())
	if err != nil {
		m.syncs.WithLabelValues("error").Inc()
		return
	}
	m.syncs.WithLabelValues("ok").Inc()
	if wrote {
		m.delay.Observe(delay.Seconds())
	}
}
