package verifier

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	passes, freed, readded, confirmed, settled prometheus.Counter
	reports                                    *prometheus.CounterVec
	nodeAddresses                              prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "portolan_allocator_verifier_" + name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		passes:    counter("passes_total", "Comparisons of everything that is allocated with the registry."),
		freed:     counter("freed_total", "Values freed because no object has them."),
		readded:   counter("readded_total", "Values allocated because a service has them and no other object does."),
		confirmed: counter("confirmed_total", "Claims confirmed because an object has their value."),
		settled:   counter("settled_total", "Values taken out of reserves because services have had them for the grace."),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_allocator_verifier_reports_total", Help: "Events on services and nodes, by reason.",
		}, []string{"reason"}),
		nodeAddresses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_allocator_node_addresses_in_pools", Help: "Addresses of nodes that lie in the range of a pool.",
		}),
	}
	reg.MustRegister(m.reports, m.nodeAddresses)
	return m
}
