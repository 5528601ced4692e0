package controller

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

type metrics struct {
	syncs *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, pending func() int, services func() []*corev1.Service) *metrics {
	m := &metrics{syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_lbctl_syncs_total", Help: "Load balancers synced, by result: ok or error.",
	}, []string{"result"})}
	for _, result := range []string{"ok", "error"} {
		m.syncs.WithLabelValues(result)
	}
	reg.MustRegister(m.syncs, &serviceCounts{services: services}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_lbctl_pending", Help: "Services that are due or being synced.",
	}, func() float64 { return float64(pending()) }))
	return m
}

func (m *metrics) synced(err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.syncs.WithLabelValues(result).Inc()
}

// servicesDesc describes the number of services by state.
var servicesDesc = prometheus.NewDesc("portolan_lbctl_services",
	"Services of type LoadBalancer, by state: ensured, waiting (the provider is missing or does not answer, or an address is missing), failing, or deleting.", []string{"state"}, nil)

// serviceCounts counts services when metrics are read.
type serviceCounts struct{ services func() []*corev1.Service }

// Describe implements prometheus.Collector.
func (s *serviceCounts) Describe(out chan<- *prometheus.Desc) { out <- servicesDesc }

// Collect implements prometheus.Collector.
func (s *serviceCounts) Collect(out chan<- prometheus.Metric) {
	counts := map[string]int{"ensured": 0, "waiting": 0, "failing": 0, "deleting": 0}
	for _, svc := range s.services() {
		counts[stateOf(svc)]++
	}
	for state, n := range counts {
		out <- prometheus.MustNewConstMetric(servicesDesc, prometheus.GaugeValue, float64(n), state)
	}
}

// stateOf returns the state of a service for metrics.
func stateOf(svc *corev1.Service) string {
	if !spec.IsLoadBalancer(svc) || svc.GetMetadata().GetDeletionTimestamp() != nil {
		return "deleting"
	}
	for _, c := range svc.GetStatus().GetConditions() {
		if c.GetType() != object.ConditionLoadBalancer {
			continue
		}
		switch {
		case c.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE:
			return "ensured"
		case !slices.Contains([]string{"NoProvider", "NoAddress", "Pending", "ProviderUnavailable"}, c.GetReason()):
			return "failing"
		}
	}
	return "waiting"
}
