package systemd

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// newCalls returns the counter of calls.
func newCalls(metrics prometheus.Registerer) *prometheus.CounterVec {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_registrar_systemd_calls_total",
		Help: "Calls of systemd over D-Bus, by method. At rest there are some every few minutes, when all units are listed.",
	}, []string{"method"})
	metrics.MustRegister(calls)
	return calls
}

// member returns the last part of a method's name.
func member(method string) string { return method[strings.LastIndexByte(method, '.')+1:] }
