package forward

import "github.com/prometheus/client_golang/prometheus"

var (
	descAsked   = prometheus.NewDesc("portolan_dnssvc_forwarded_total", "Questions asked of upstream servers.", nil, nil)
	descFailed  = prometheus.NewDesc("portolan_dnssvc_forward_failures_total", "Questions that no upstream server answered.", nil, nil)
	descShared  = prometheus.NewDesc("portolan_dnssvc_forward_shared_total", "Questions that waited for the same one being asked already.", nil, nil)
	descHits    = prometheus.NewDesc("portolan_dnssvc_cache_hits_total", "Questions about other names that were answered from memory.", nil, nil)
	descMisses  = prometheus.NewDesc("portolan_dnssvc_cache_misses_total", "Questions about other names that were not.", nil, nil)
	descEntries = prometheus.NewDesc("portolan_dnssvc_cache_entries", "Answers remembered now.", nil, nil)
	descStale   = prometheus.NewDesc("portolan_dnssvc_stale_total", "Questions answered from memory after the answer's end, because upstream servers failed or were slow.", nil, nil)
	descUp      = prometheus.NewDesc("portolan_dnssvc_upstream_up", "Whether an upstream server is being asked: 0 after failures, or if it leads back here.", []string{"upstream"}, nil)
)

// Describe implements prometheus.Collector.
func (f *Forwarder) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descAsked, descFailed, descShared, descStale, descHits, descMisses, descEntries, descUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *Forwarder) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	hits, misses, entries := f.cache.stats()
	send(descAsked, prometheus.CounterValue, float64(f.asked.Load()))
	send(descFailed, prometheus.CounterValue, float64(f.failed.Load()))
	send(descShared, prometheus.CounterValue, float64(f.shared.Load()))
	send(descStale, prometheus.CounterValue, float64(f.stale.Load()))
	send(descHits, prometheus.CounterValue, float64(hits))
	send(descMisses, prometheus.CounterValue, float64(misses))
	send(descEntries, prometheus.GaugeValue, float64(entries))
	for _, u := range f.upstreams {
		up := 0.0
		if u.usable() {
			up = 1
		}
		send(descUp, prometheus.GaugeValue, up, u.server.String())
	}
}
