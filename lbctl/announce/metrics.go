package announce

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics collects the figures of a server when metrics are read.
type metrics struct{ server *Server }

var (
	addressesDesc   = prometheus.NewDesc("portolan_lbctl_announce_addresses", "Load-balancer addresses to announce, by state (Announced, Waiting, NoEligibleNode, NoEdge); none if this lbctl does not lead.", []string{"state"}, nil)
	nodesDesc       = prometheus.NewDesc("portolan_lbctl_announce_streams", "Streams of node agents that announce, or are ready to.", nil, nil)
	changesDesc     = prometheus.NewDesc("portolan_lbctl_announce_owner_changes_total", "Changes of the node that is to announce an address, the first one of each address too.", nil, nil)
	unannouncedDesc = prometheus.NewDesc("portolan_lbctl_unannounced_seconds_total", "Time in which addresses had no announcer while this lbctl led, summed over the addresses.", nil, nil)
)

// Describe implements prometheus.Collector.
func (metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{addressesDesc, nodesDesc, changesDesc, unannouncedDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	states := map[Reason]int{}
	if m.server.term != nil {
		for _, s := range m.server.assigner.Statuses(time.Now()) {
			states[s.Reason]++
		}
	}
	for _, state := range []Reason{Announced, Waiting, NoEligibleNode, NoEdge} {
		out <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, float64(states[state]), string(state))
	}
	out <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(len(m.server.streams)))
	out <- prometheus.MustNewConstMetric(changesDesc, prometheus.CounterValue, float64(m.server.assigner.OwnerChanges()))
	out <- prometheus.MustNewConstMetric(unannouncedDesc, prometheus.CounterValue, m.server.assigner.Unannounced().Seconds())
}
