package nodeagent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
)

// triggerAnnotation is a slice's annotation with the time of the change that caused it.
const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// metrics are the agent's metrics.
type metrics struct {
	revision    prometheus.Gauge
	servers     prometheus.Gauge
	reals       prometheus.Gauge
	failing     prometheus.Gauge
	noLocal     prometheus.Gauge
	sync        prometheus.Histogram
	steps       *prometheus.CounterVec
	failures    *prometheus.CounterVec
	drift       prometheus.Counter
	programming prometheus.Histogram
	lastSync    prometheus.Gauge
	mode        *prometheus.GaugeVec
	asked       *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "portolan_nodeagent_" + name, Help: help})
	}
	m := &metrics{
		revision: gauge("applied_revision", "Revision up to which the data plane was programmed."),
		servers:  gauge("virtual_servers", "Virtual servers planned."),
		reals:    gauge("real_servers", "Backends planned, once for each virtual server that they are behind."),
		failing:  gauge("failing_virtual_servers", "Virtual servers that are not as planned; tried again with growing pauses."),
		noLocal:  gauge("no_local_backends", "Virtual servers under policy Local that have no backend here while other nodes have."),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_nodeagent_sync_duration_seconds", Help: "Time to plan and program a batch of changes.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_steps_total", Help: "Steps given to the data plane, by kind.",
		}, []string{"op"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_step_failures_total", Help: "Steps that failed, by kind; each try counts.",
		}, []string{"op"}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_nodeagent_drift_repaired_total", Help: "Differences between plan and data plane that an audit found and repaired.",
		}),
		programming: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_nodeagent_network_programming_duration_seconds", Help: "Time from a change of a pod to the data plane that follows it.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 10),
		}),
		lastSync: gauge("last_sync_timestamp_seconds", "When a batch of changes was last planned and programmed, in seconds since the epoch."),
		mode: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "portolan_nodeagent_proxy_mode", Help: "1 for the mode that the node forwards in.",
		}, []string{"mode"}),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_healthz_total", Help: "Answers of the node's health endpoints, by path and code.",
		}, []string{"path", "code"}),
	}
	reg.MustRegister(m.revision, m.servers, m.reals, m.failing, m.noLocal, m.sync, m.steps, m.failures, m.drift, m.programming, m.lastSync, m.mode, m.asked)
	return m
}

// ages registers the gauges of times up to the present.
func (m *metrics) ages(reg prometheus.Registerer, queue, view func() time.Duration) {
	age := func(name, help string, of func() time.Duration) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "portolan_nodeagent_" + name, Help: help}, func() float64 { return of().Seconds() })
	}
	reg.MustRegister(
		age("queue_age_seconds", "Time that changes have been waiting to be programmed, or are being programmed; 0: there are none.", queue),
		age("view_age_seconds", "Time since the view that the node forwards by was last known to be current.", view),
	)
}

// synced records the end of a sync.
func (m *metrics) synced(began time.Time) {
	now := time.Now()
	m.sync.Observe(now.Sub(began).Seconds())
	m.lastSync.Set(float64(now.UnixMilli()) / 1000)
}

// latencies observes the time since the triggers of slices. Each trigger counts once: slices with a
// trigger that is not newer than last are skipped. It returns the newest trigger.
func (m *metrics) latencies(slicesOf []*corev1.EndpointSlice, last, now time.Time) time.Time {
	newest := last
	for _, s := range slicesOf {
		at, err := time.Parse(time.RFC3339Nano, s.GetMetadata().GetAnnotations()[triggerAnnotation])
		if err != nil || !at.After(last) {
			continue
		}
		if d := now.Sub(at); d >= 0 {
			m.programming.Observe(d.Seconds())
		}
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}
