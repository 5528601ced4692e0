package changes

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type relayMetrics struct {
	published, conflicts, rebuilds prometheus.Counter
	lag, streamBytes, refused      prometheus.Gauge
}

func newRelayMetrics(reg prometheus.Registerer) relayMetrics {
	factory := promauto.With(reg)
	return relayMetrics{
		published: factory.NewCounter(prometheus.CounterOpts{
			Name: "portolan_changes_relay_published_total", Help: "Changes that this relay published.",
		}),
		conflicts: factory.NewCounter(prometheus.CounterOpts{
			Name: "portolan_changes_relay_conflicts_total", Help: "Batches that another relay published first.",
		}),
		rebuilds: factory.NewCounter(prometheus.CounterOpts{
			Name: "portolan_changes_relay_rebuilds_total", Help: "Streams that this relay created again.",
		}),
		lag: factory.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_changes_relay_lag_revisions", Help: "Revisions of the log that the stream lacks.",
		}),
		refused: factory.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_changes_relay_refused", Help: "1 while this relay leaves the stream alone because it belongs to another installation, because a registry with a copy of the store replaces it, or because the NATS server is too old; otherwise 0. /readyz has the remedy.",
		}),
		streamBytes: factory.NewGauge(prometheus.GaugeOpts{
			Name: "portolan_changes_relay_stream_bytes", Help: "Size of the stream in NATS. At its limit it drops its oldest changes, which followers then read from the registry's log.",
		}),
	}
}

type followerMetrics struct {
	snapshots, forged *prometheus.CounterVec
	healed            prometheus.Counter
}

// Reasons for which a follower takes a snapshot, as values of the metric's label.
const (
	// The follower has no snapshot yet.
	atStart = "start"
	// The log no longer goes back to the follower's revision.
	afterPrune = "pruned"
	// The log has a new epoch.
	afterEpoch = "epoch"
	// NATS delivered changes that the log does not have.
	afterForgery = "forged"
	// Resync was called.
	byRequest = "resync"
)

// Forgeries that a follower finds, as values of the metric's label.
const (
	// The changes of a range are not the log's.
	forgedChanges = "changes"
	// A message has not the change that its headers say.
	forgedMessage = "message"
	// A bookmark or a sequence number names another end of the log than the registry.
	forgedHead = "head"
)

func newFollowerMetrics(reg prometheus.Registerer, f *Follower) followerMetrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_changes_revision", Help: "Revision up to which changes are applied.",
	}, func() float64 { return float64(f.Revision()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_changes_lag_seconds", Help: "Time since the view was last known to be complete.",
	}, func() float64 { return f.Age().Seconds() })
	snapshots := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_changes_snapshots_total",
		Help: "Snapshots taken from the registry, by reason: start, pruned (the log no longer goes back to what the view has), epoch (the log began anew), forged (NATS delivered changes that the log does not have) or resync (on request).",
	}, []string{"reason"})
	for _, reason := range []string{atStart, afterPrune, afterEpoch, afterForgery, byRequest} {
		snapshots.WithLabelValues(reason)
	}
	forged := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_changes_forged_total",
		Help: "Times that NATS delivered what the registry's log does not have: changes (forged, altered or left out), message (not of the revision that it says) or head (another end of the log).",
	}, []string{"what"})
	for _, what := range []string{forgedChanges, forgedMessage, forgedHead} {
		forged.WithLabelValues(what)
	}
	return followerMetrics{
		snapshots: snapshots, forged: forged,
		healed: factory.NewCounter(prometheus.CounterOpts{
			Name: "portolan_changes_healed_total", Help: "Changes read from the registry's log because the stream lacked them.",
		}),
	}
}
