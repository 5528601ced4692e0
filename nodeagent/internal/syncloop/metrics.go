package syncloop

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"

	"portolan.dev/nodeagent/internal/view"
)

// triggerAnnotation is a slice's annotation with the time of the change that caused it.
const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// metrics are the metrics of a Syncer.
type metrics struct {
	revision    prometheus.Gauge
	servers     prometheus.Gauge
	reals       prometheus.Gauge
	failing     prometheus.Gauge
	noLocal     prometheus.Gauge
	sync        prometheus.Histogram
	programmed  prometheus.Counter
	failures    prometheus.Counter
	drift       prometheus.Counter
	programming prometheus.Histogram
	lastSync    prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, queueAge func() time.Duration) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "portolan_nodeagent_" + name, Help: help})
	}
	m := &metrics{
		revision: gauge("applied_revision", "Revision up to which the data plane was programmed."),
		servers:  gauge("virtual_servers", "Virtual servers planned."),
		reals:    gauge("real_servers", "Backends planned, once for each virtual server that they are behind."),
		failing:  gauge("failing_virtual_servers", "Frontends with virtual servers that are not as planned; tried again with growing pauses."),
		noLocal:  gauge("no_local_backends", "Virtual servers under policy Local that have no backend here while other nodes have."),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_nodeagent_sync_duration_seconds", Help: "Time to plan and program a batch of changes.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}),
		programmed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_nodeagent_programmed_frontends_total", Help: "Changed frontends that were given to the data plane; each try counts.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_nodeagent_frontend_failures_total", Help: "Frontends that could not be programmed as planned; each try counts.",
		}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_nodeagent_drift_repaired_total", Help: "Differences between plan and data plane that an audit found and repaired.",
		}),
		programming: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "portolan_nodeagent_network_programming_duration_seconds", Help: "Time from a change of a pod to the data plane that follows it.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 10),
		}),
		lastSync: gauge("last_sync_timestamp_seconds", "When a batch of changes was last planned and programmed, in seconds since the epoch."),
	}
	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_queue_age_seconds", Help: "Time that changes have been waiting to be programmed, or are being programmed; 0: there are none.",
	}, func() float64 { return queueAge().Seconds() })
	reg.MustRegister(m.revision, m.servers, m.reals, m.failing, m.noLocal, m.sync, m.programmed, m.failures, m.drift, m.programming, m.lastSync, queue)
	return m
}

// observeSync records the end of a sync.
func (m *metrics) observeSync(began time.Time) {
	now := time.Now()
	m.sync.Observe(now.Sub(began).Seconds())
	m.lastSync.Set(float64(now.UnixMilli()) / 1000)
}

// observeLatencies observes the time since the triggers of slices. Each trigger counts once: slices
// with a trigger that is not newer than last are skipped. It returns the newest trigger.
func (m *metrics) observeLatencies(slicesOf []*corev1.EndpointSlice, last, now time.Time) time.Time {
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

// measureLatency observes the time from the changes of pods until now.
func (s *Syncer) measureLatency(services map[object.Name]view.Service) {
	now := time.Now()
	for name, svc := range services {
		if svc.Object != nil {
			if at := s.metrics.observeLatencies(svc.Slices, s.lastTrigger[name], now); !at.IsZero() {
				s.lastTrigger[name] = at
			}
		}
	}
}
