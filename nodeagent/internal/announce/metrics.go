package announce

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	answers, announcements, changes *prometheus.CounterVec
}

// newMetrics registers the metrics. If the node does not announce, they stay at 0.
func newMetrics(reg prometheus.Registerer, holder *Holder, enabled bool) *metrics {
	m := &metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_announce_answers_total", Help: "Answers to neighbours that asked for an announced address, by protocol (arp, ndp).",
		}, []string{"protocol"}),
		announcements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_announcements_total", Help: "Announcements without a request, by protocol (arp, ndp).",
		}, []string{"protocol"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_nodeagent_announce_changes_total", Help: "Addresses that the node has begun or ended to announce by an answer of lbctl, by change (began, ended).",
		}, []string{"change"}),
	}
	for _, protocol := range []string{"arp", "ndp"} {
		m.answers.WithLabelValues(protocol)
		m.announcements.WithLabelValues(protocol)
	}
	m.changes.WithLabelValues("began")
	m.changes.WithLabelValues("ended")
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_announced_addresses", Help: "Load-balancer addresses that the node announces now.",
	}, func() float64 { return float64(len(holder.Held())) })
	handed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_handovers", Help: "Load-balancer addresses of which the node sends the packets of earlier connections to the previous node now.",
	}, func() float64 { return float64(len(holder.HandOvers())) })
	begun := bootTime()
	without := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_nodeagent_announce_without_right_seconds", Help: "Time since lbctl's last answer has lost its force, or since the agent's start if there was none; 0: it is in force, or announcing is off.",
	}, func() float64 {
		if !enabled {
			return 0
		}
		left, ok := holder.Left()
		if !ok {
			return (bootTime() - begun).Seconds()
		}
		return max(0, -left).Seconds()
	})
	reg.MustRegister(m.answers, m.announcements, m.changes, held, handed, without)
	return m
}

// changed counts a change of the rights.
func (m *metrics) changed(began, ended int) {
	m.changes.WithLabelValues("began").Add(float64(began))
	m.changes.WithLabelValues("ended").Add(float64(ended))
}

// seconds returns a time in seconds, and 0 for times in the past.
func seconds(d time.Duration) float64 { return max(0, d).Seconds() }
