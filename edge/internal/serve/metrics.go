package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/listen"
)

// codes are the values of the label code, by the first digit of a status.
var codes = [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// metrics are the metrics of all ports.
type metrics struct {
	refusals     *prometheus.CounterVec
	connections  counters
	answers      counters
	dialFailures prometheus.Counter
	requests     [len(codes)]prometheus.Counter // by the first digit of the status; 0: no response
}

func newMetrics(reg prometheus.Registerer, s *Server) *metrics {
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_edge_connections_refused_total", Help: "Connections that ended before they were served, by reason.",
		}, []string{"reason"}),
	}
	m.dialFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "portolan_edge_dial_failures_total", Help: "Dials of backends that failed.",
	})
	m.connections = newCounters(reg, "portolan_edge_connections_ended_total", "Connections of layer 4 that have ended, by result.")
	m.answers = newCounters(reg, "portolan_edge_requests_ended_total", "Requests of layer 7 that have ended, by result.")
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_edge_requests_total", Help: "Requests of layer 7, by the class of the status that clients were answered (none: the client was gone).",
	}, []string{"code"})
	reg.MustRegister(requests)
	for i, code := range codes {
		m.requests[i] = requests.WithLabelValues(code)
	}
	for _, reason := range listen.Reasons {
		m.refusals.WithLabelValues(string(reason)) // shown from the start
	}
	reg.MustRegister(m.refusals, m.dialFailures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_edge_ports", Help: "Ports of services that are open.",
		}, func() float64 { open, _, _ := s.counts(); return float64(open) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_edge_ports_closed", Help: "Ports of services that should be open and are not.",
		}, func() float64 { _, closed, _ := s.counts(); return float64(closed) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_edge_connections", Help: "Connections of clients that are served now.",
		}, func() float64 { _, _, n := s.counts(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_edge_certificate_expiry_timestamp_seconds",
			Help: "Time in Unix seconds at which the first of the services' certificates expires; 0: no service has one.",
		}, s.expiry),
	)
	return m
}

func (m *metrics) refused(reason listen.Reason) { m.refusals.WithLabelValues(string(reason)).Inc() }

// counters are the counters of one metric, by ending.
type counters []prometheus.Counter

func newCounters(reg prometheus.Registerer, name, help string) counters {
	metric := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"result"})
	reg.MustRegister(metric)
	all := make(counters, len(ending.All()))
	for _, e := range ending.All() {
		all[e] = metric.WithLabelValues(e.String())
	}
	return all
}

// ended counts a connection of layer 4.
func (m *metrics) ended(e ending.Ending) { m.connections[e].Inc() }

// answered counts a request by its status, which is 0 if there was no response, and by its ending.
func (m *metrics) answered(status int, e ending.Ending) {
	m.requests[min(status/100, len(codes)-1)].Inc()
	m.answers[e].Inc()
}

// expiry returns the time at which the first certificate expires, in Unix seconds, or 0.
func (s *Server) expiry() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for name, svc := range s.services {
		end := s.opts.Certs.Expiry(name.Namespace, svc.settings)
		if !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.Unix())
}

// counts returns the numbers of open ports, of planned ports that are not open, and of connections.
func (s *Server) counts() (open, closed, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		connections += p.connections()
	}
	for p := range s.draining {
		connections += p.connections()
	}
	return len(s.ports) - len(s.closed), len(s.closed), connections
}
