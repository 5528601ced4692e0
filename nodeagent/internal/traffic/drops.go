package traffic

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
)

// dropCounter is a data plane that counts dropped packets.
type dropCounter interface {
	Drops() ([]kernelmode.Drop, error)
}

// dropMetrics reads the dropped packets from the kernel at each scrape of the metrics. The kernel's
// counters restart with the packet filter, so their increases are added up here, as for traffic.
type dropMetrics struct {
	plane     dropCounter // nil: it counts none
	maxSeries int         // maximum number of series
	log       *slog.Logger
	desc      *prometheus.Desc

	mu   sync.Mutex
	last map[dropSource]uint64
	sums map[dropSeries]uint64
}

type dropSource struct {
	at  plan.Frontend
	set string
}

type dropSeries struct {
	servicePort
	reason string
}

// registerDrops registers the metric of dropped packets for at most the given number of service
// ports.
func registerDrops(reg prometheus.Registerer, plane any, maxPorts int, log *slog.Logger) {
	m := &dropMetrics{
		maxSeries: maxPorts, log: log, last: map[dropSource]uint64{}, sums: map[dropSeries]uint64{},
		desc: prometheus.NewDesc("portolan_nodeagent_service_dropped_packets_total",
			"Packets for a port of a service that were dropped in the kernel, by reason: source_range (the client may not come) or no_backend (none on this node, policy Local).",
			[]string{"namespace", "service", "port", "protocol", "reason"}, nil),
	}
	m.plane, _ = plane.(dropCounter)
	reg.MustRegister(m)
}

// Describe implements prometheus.Collector.
func (m *dropMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *dropMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plane == nil {
		return
	}
	found, err := m.plane.Drops()
	if err != nil { // the sums so far remain valid
		m.log.Warn("dropped packets not read", "err", err)
	} else {
		m.add(found)
	}
	series := make([]dropSeries, 0, len(m.sums))
	for s := range m.sums {
		series = append(series, s)
	}
	slices.SortFunc(series, func(a, b dropSeries) int {
		return cmp.Or(cmp.Compare(m.sums[b], m.sums[a]), a.compare(b.servicePort), cmp.Compare(a.reason, b.reason))
	})
	for _, s := range series[:min(m.maxSeries, len(series))] {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.sums[s]),
			s.service.Namespace, s.service.Name, s.port, s.protocol.String(), s.reason)
	}
}

// add adds the increases since the last reading to the sums. It forgets ports without dropped
// packets, such as ports of deleted services.
func (m *dropMetrics) add(found []kernelmode.Drop) {
	last, sums := make(map[dropSource]uint64, len(found)), map[dropSeries]uint64{}
	for _, d := range found {
		from := dropSource{d.Frontend, d.Set}
		last[from] = d.Packets
		s := dropSeries{servicePort{d.Service, d.PortName, d.Frontend.Protocol}, d.Reason}
		if _, known := sums[s]; !known {
			sums[s] = m.sums[s]
		}
		before := m.last[from]
		if d.Packets < before { // the packet filter was built anew
			before = 0
		}
		sums[s] += d.Packets - before
	}
	m.last, m.sums = last, sums
}
