package docker

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	events   prometheus.Counter
}

// calls are the values of the label call.
var calls = []string{"version", "ping", "list", "inspect", "events"}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registrar_docker_requests_total", Help: "Requests to the Docker engine, by call (version, ping, list, inspect, events) and result (ok, error).",
		}, []string{"call", "result"}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_registrar_docker_events_total", Help: "Events that the Docker engine has sent.",
		}),
	}
	for _, call := range calls {
		m.requests.WithLabelValues(call, "ok")
		m.requests.WithLabelValues(call, "error")
	}
	reg.MustRegister(m.requests, m.events)
	return m
}

func (m *metrics) count(call string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.requests.WithLabelValues(call, result).Inc()
}
