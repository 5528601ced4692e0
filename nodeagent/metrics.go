package nodeagent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/proto/portolan/core/v1"
)

// triggerAnnotation of a slice says when the change behind it happened.
const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// metrics of the agent.
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
	}
	reg.MustRegister(m.revision, m.servers, m.reals, m.failing, m.noLocal, m.sync, m.steps, m.failures, m.drift, m.programming)
	return m
}

// latencies measures how long ago the triggers of slices were. A trigger is
// counted once: slices whose trigger is not newer than last are skipped. It
// returns the newest.
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
