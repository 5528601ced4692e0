package traffic

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"

	"portolan.dev/services/kit/obs"
)

// trafficCounter is a data plane that counts the traffic of its servers.
type trafficCounter interface {
	Traffic() ([]kernelmode.Counted, error)
}

// trafficMetrics reads traffic from the kernel at each scrape of the metrics, and at no other time.
//
// The kernel's counters end with its servers, and a port has several of them. So their increases
// since the last reading are added up here. The sums never decrease, because Prometheus would take
// that for a restart.
type trafficMetrics struct {
	plane    trafficCounter // nil: it counts nothing
	maxPorts int            // maximum number of service ports with series

	outage obs.Outage // of reading the counters

	connections, packets, bytes, omitted *prometheus.Desc

	mu   sync.Mutex
	last map[plan.Frontend]kernelmode.Traffic
	sums map[servicePort]kernelmode.Traffic
}

// registerTraffic registers the metrics of traffic for at most the given number of service ports.
func registerTraffic(reg prometheus.Registerer, plane any, maxPorts int, log *slog.Logger) {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("portolan_nodeagent_service_"+name, help, append([]string{"namespace", "service", "port", "protocol"}, more...), nil)
	}
	m := &trafficMetrics{
		maxPorts: maxPorts, outage: obs.Outage{Log: log, Down: "traffic not read", Up: "traffic is read again"},
		connections: desc("connections_total", "Connections, or flows of UDP, to a port of a service, by the name of the port."),
		packets:     desc("packets_total", "Packets of a port of a service, by direction: in is from clients, out to them. Only IPVS counts them.", "direction"),
		bytes:       desc("bytes_total", "Bytes of a port of a service, by direction: in is from clients, out to them. Only IPVS counts them.", "direction"),
		omitted: prometheus.NewDesc("portolan_nodeagent_service_ports_without_traffic_metrics",
			"Ports of services whose traffic is left out of the metrics, since others have more connections.", nil, nil),
	}
	m.plane, _ = plane.(trafficCounter)
	reg.MustRegister(m)
}

// Describe implements prometheus.Collector.
func (m *trafficMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.connections, m.packets, m.bytes, m.omitted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *trafficMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plane != nil {
		found, err := m.plane.Traffic()
		if err != nil { // the sums so far remain valid
			m.outage.Failed(err)
		} else {
			m.outage.Over()
			m.add(found)
		}
	}
	shown := m.busiest()
	for _, p := range shown {
		m.emit(ch, p, m.sums[p])
	}
	ch <- prometheus.MustNewConstMetric(m.omitted, prometheus.GaugeValue, float64(len(m.sums)-len(shown)))
}

// add adds the increases since the last reading to the sums. It forgets ports that no longer exist.
func (m *trafficMetrics) add(found []kernelmode.Counted) {
	last, sums := make(map[plan.Frontend]kernelmode.Traffic, len(found)), map[servicePort]kernelmode.Traffic{}
	for _, c := range found {
		last[c.Server] = c.Traffic
		p := servicePort{c.Service, c.PortName, c.Server.Protocol}
		sum, known := sums[p]
		if !known {
			sum = m.sums[p]
		}
		sums[p] = addIncrease(sum, m.last[c.Server], c.Traffic)
	}
	m.last, m.sums = last, sums
}

// addIncrease returns a sum plus the increase of a server's counters between two readings. If the
// counters have decreased, the server was added anew.
func addIncrease(sum, before, now kernelmode.Traffic) kernelmode.Traffic {
	if now.Connections < before.Connections || now.PacketsIn < before.PacketsIn {
		before = kernelmode.Traffic{}
	}
	sum.Connections += now.Connections - before.Connections
	sum.PacketsIn += now.PacketsIn - before.PacketsIn
	sum.PacketsOut += now.PacketsOut - before.PacketsOut
	sum.BytesIn += now.BytesIn - before.BytesIn
	sum.BytesOut += now.BytesOut - before.BytesOut
	return sum
}

// busiest returns the ports with the most connections. Only these have series.
func (m *trafficMetrics) busiest() []servicePort {
	all := make([]servicePort, 0, len(m.sums))
	for p := range m.sums {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b servicePort) int {
		return cmp.Or(cmp.Compare(m.sums[b].Connections, m.sums[a].Connections), a.compare(b))
	})
	return all[:min(m.maxPorts, len(all))]
}

func (m *trafficMetrics) emit(ch chan<- prometheus.Metric, p servicePort, t kernelmode.Traffic) {
	labels := []string{p.service.Namespace, p.service.Name, p.port, p.protocol.String()}
	count := func(d *prometheus.Desc, n uint64, direction ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), slices.Concat(labels, direction)...)
	}
	count(m.connections, t.Connections)
	if t.PacketsIn+t.PacketsOut == 0 { // there were no packets, or they are not counted
		return
	}
	count(m.packets, t.PacketsIn, "in")
	count(m.packets, t.PacketsOut, "out")
	count(m.bytes, t.BytesIn, "in")
	count(m.bytes, t.BytesOut, "out")
}
