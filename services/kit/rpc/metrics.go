package rpc

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// metrics are the metrics of a server's calls. The number of label values is limited, because only
// registered methods are counted.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
	panics   prometheus.Counter
	unread   prometheus.Counter
	refused  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		requests: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_rpc_requests_total",
			Help: "Calls answered, by method and status code; a stream counts when it ends.",
		}, []string{"method", "code"})),
		duration: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "portolan_rpc_duration_seconds",
			Help:    "Time to answer unary calls, by method.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method"})),
		streams: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "portolan_rpc_streams_open",
			Help: "Streams open now, by method.",
		}, []string{"method"})),
		panics: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_rpc_panics_total",
			Help: "Handlers that panicked. Each is a bug.",
		})),
		unread: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_rpc_streams_unread_total",
			Help: "Streams that were ended because the client did not read them.",
		})),
		refused: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_rpc_streams_refused_total",
			Help: "Streams refused because too many were open, by limit: identity or server.",
		}, []string{"limit"})),
	}
}

// register registers c with reg. If an earlier server of the same daemon has registered the metric,
// register returns that one, so that the servers share it.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	if err == nil {
		return c
	}
	if have, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := have.ExistingCollector.(C); ok {
			return same
		}
	}
	panic(err) // two metrics with one name: a mistake in the program
}

func (m *metrics) done(method string, stream bool, code codes.Code, took time.Duration) {
	m.requests.WithLabelValues(method, code.String()).Inc()
	if !stream {
		m.duration.WithLabelValues(method).Observe(took.Seconds())
	}
}
