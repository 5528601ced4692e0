package server

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/dnssvc/internal/zone"
)

// Transports, as indexes of counters.
const (
	byUDP = iota
	byTCP
	byTLS
	transports
)

var transportNames = [transports]string{"udp", "tcp", "tls"}

// moreTypes are counted by name besides the types of records that objects have.
var moreTypes = [...]uint16{dns.TypeSOA, dns.TypeNS, dns.TypeTXT, dns.TypeMX, dns.TypeHTTPS, dns.TypeANY}

// otherType is the index of the counter of all types that are not counted by name.
const otherType = len(zone.RecordTypes) + len(moreTypes)

// countedTypes are the types that are counted by name.
var countedTypes = func() (types [otherType]uint16) {
	for i, t := range zone.RecordTypes {
		types[i] = t.Type
	}
	copy(types[len(zone.RecordTypes):], moreTypes[:])
	return types
}()

// typeIndex maps a type to its counter. All types that are counted by name are below 256.
var typeIndex = func() (index [256]uint8) {
	for i := range index {
		index[i] = uint8(otherType)
	}
	for i, t := range countedTypes {
		index[t] = uint8(i)
	}
	return index
}()

const rcodes = 16

// workerStats holds the counters of one goroutine.
type workerStats struct {
	queries   [transports][otherType + 1]atomic.Uint64
	replies   [rcodes]atomic.Uint64
	fast      atomic.Uint64
	truncated atomic.Uint64
	partial   atomic.Uint64 // answers with part of a set
	dropped   [dropReasons]atomic.Uint64
	ignored   atomic.Uint64 // packets that get no answer
	panics    atomic.Uint64
	_         [64]byte // padding: another core writes the next worker's counters
}

func (w *workerStats) counters() []*atomic.Uint64 {
	list := []*atomic.Uint64{&w.fast, &w.truncated, &w.partial, &w.ignored, &w.panics}
	for t := range w.queries {
		for i := range w.queries[t] {
			list = append(list, &w.queries[t][i])
		}
	}
	for i := range w.dropped {
		list = append(list, &w.dropped[i])
	}
	for i := range w.replies {
		list = append(list, &w.replies[i])
	}
	return list
}

func (w *workerStats) add(other *workerStats) {
	theirs := other.counters()
	for i, c := range w.counters() {
		c.Add(theirs[i].Load())
	}
}

// countFast counts an answer of the fast path.
func (w *workerStats) countFast(transport int, f *fastPath, reply []byte) {
	w.fast.Add(1)
	if f.partial {
		w.partial.Add(1)
	}
	w.count(transport, f.qtype, reply)
}

// count counts a question and its answer.
func (w *workerStats) count(transport int, qtype uint16, reply []byte) {
	i := otherType
	if qtype < 256 {
		i = int(typeIndex[qtype])
	}
	w.queries[transport][i].Add(1)
	if len(reply) < headerSize {
		return
	}
	w.replies[reply[3]&0xf].Add(1)
	if reply[2]&(flagTC>>8) != 0 {
		w.truncated.Add(1)
	}
}

// questionType returns the type of the question in a packet, or TypeNone if it cannot be read.
func questionType(packet []byte) uint16 {
	for at := headerSize; at < len(packet); {
		n := int(packet[at])
		switch {
		case n >= 64:
			return dns.TypeNone
		case n == 0 && at+3 <= len(packet):
			return binary.BigEndian.Uint16(packet[at+1:])
		}
		at += 1 + n
		if n == 0 {
			break
		}
	}
	return dns.TypeNone
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descQueries, descReplies, descFast, descTruncated, descPartial, descDropped, descIgnored, descPanics, descConns, descConnsRefused, descPending, descHandshakes, descBadSigs,
	} {
		ch <- d
	}
}

var (
	descQueries = prometheus.NewDesc("portolan_dnssvc_queries_total",
		"Questions, by transport and type; types that are seldom asked for are counted as other.", []string{"transport", "type"}, nil)
	descReplies = prometheus.NewDesc("portolan_dnssvc_replies_total",
		"Answers that did not have to wait for upstream servers, by response code.", []string{"rcode"}, nil)
	descFast      = prometheus.NewDesc("portolan_dnssvc_fast_replies_total", "Answers that took the fast path.", nil, nil)
	descTruncated = prometheus.NewDesc("portolan_dnssvc_truncated_total", "Answers that did not fit, so that the client asks again by TCP.", nil, nil)
	descPartial   = prometheus.NewDesc("portolan_dnssvc_partial_total",
		"Answers with a part of the records only, because one answer cannot have all, or may not have more.", nil, nil)
	descDropped = prometheus.NewDesc("portolan_dnssvc_dropped_total", "Questions dropped because too many were waiting for upstream servers, by reason: client (as many of that client as there were free places) or server (no free place).", []string{"reason"}, nil)
	descIgnored = prometheus.NewDesc("portolan_dnssvc_ignored_total", "Packets that are not questions.", nil, nil)
	descPanics  = prometheus.NewDesc("portolan_dnssvc_panics_total", "Questions that made the handler panic. Each is a bug.", nil, nil)
	descConns   = prometheus.NewDesc("portolan_dnssvc_tcp_connections", "TCP connections open now, those of DNS over TLS too.", nil, nil)

	descConnsRefused = prometheus.NewDesc("portolan_dnssvc_tcp_connections_refused_total", "TCP connections closed at once because there were too many.", nil, nil)
	descHandshakes   = prometheus.NewDesc("portolan_dnssvc_tls_handshake_failures_total", "Connections for DNS over TLS that ended before they were encrypted.", nil, nil)
	descBadSigs      = prometheus.NewDesc("portolan_dnssvc_bad_signatures_total", "Questions signed with an unknown key, wrongly, or at another time (TSIG).", nil, nil)
	descPending      = prometheus.NewDesc("portolan_dnssvc_pending_queries", "Questions that wait for upstream servers now.", nil, nil)
)

// Collect implements prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	sum := s.stats.sum()
	for t, name := range transportNames {
		for i, rrtype := range countedTypes {
			counter(descQueries, sum.queries[t][i].Load(), name, dns.TypeToString[rrtype])
		}
		counter(descQueries, sum.queries[t][otherType].Load(), name, "other")
	}
	for i := range sum.replies {
		if text, known := dns.RcodeToString[i]; known && i <= dns.RcodeRefused {
			counter(descReplies, sum.replies[i].Load(), text)
		}
	}
	counter(descFast, sum.fast.Load())
	counter(descTruncated, sum.truncated.Load())
	counter(descPartial, sum.partial.Load()+s.handler.partial.Load())
	for i, reason := range dropReasonNames {
		counter(descDropped, sum.dropped[i].Load(), reason)
	}
	counter(descIgnored, sum.ignored.Load())
	counter(descPanics, sum.panics.Load())
	open, refused := s.conns.counts()
	ch <- prometheus.MustNewConstMetric(descConns, prometheus.GaugeValue, float64(open))
	counter(descConnsRefused, refused)
	counter(descBadSigs, s.handler.badSigs.Load())
	counter(descHandshakes, s.handshakeFailures.Load())
	ch <- prometheus.MustNewConstMetric(descPending, prometheus.GaugeValue, float64(s.pending.count()))
}
