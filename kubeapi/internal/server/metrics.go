package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of a server.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	events   prometheus.Counter
	ended    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_kubeapi_requests_total", Help: "Requests answered, by verb, resource and HTTP code.",
		}, []string{"verb", "resource", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "portolan_kubeapi_request_seconds", Help: "Time of one request, except watches, by verb.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60},
		}, []string{"verb"}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_kubeapi_watch_events_total", Help: "Events sent to watches, bookmarks too.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_kubeapi_watches_ended_total",
			Help: "Watches that ended, by reason: timeout, client (it went away, or did not read), expired (it was behind the history, or the log began anew) or refused (its certificate or token expired or was revoked).",
		}, []string{"reason"}),
	}
	reg.MustRegister(m.requests, m.seconds, m.events, m.ended)
	return m
}

// done counts a request that was answered.
func (m *metrics) done(req *request) {
	name := ""
	if req.resource != nil {
		name = req.resource.Plural
	}
	m.requests.WithLabelValues(req.verb, name, strconv.Itoa(req.code)).Inc()
	if req.verb != verbWatch {
		m.seconds.WithLabelValues(req.verb).Observe(time.Since(req.begun).Seconds())
	}
}
