package gc

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/obs"
)

// ReaperConfig is the configuration of a [Reaper]. All fields are required.
type ReaperConfig struct {
	Store   store.Store
	Log     *slog.Logger
	Metrics prometheus.Registerer

	EventTTL  time.Duration // age at which an event that was not repeated is deleted
	Events    EventLimits
	Retention uint64        // changes that the log keeps
	LogBytes  int64         // size of the objects in the log, beyond which the oldest are pruned early
	Every     time.Duration // interval
}

// Reaper bounds the number and the size of the events and of the change log, and removes
// Revocations and Tokens that have expired. It runs periodically, so the bounds may be
// exceeded by the writes of one interval. The rates of the writers (package quota) limit these.
//
// If the log exceeds its size, its oldest changes are pruned although they are within the
// retention. A follower that was away for longer then takes a snapshot. The alternative, to refuse
// writes, would let one writer stop all others.
type Reaper struct {
	ReaperConfig
	view    *view.View
	writer  *admission.Writer
	metrics reaperMetrics

	// unmeasured is set while the size of the log is unknown.
	unmeasured atomic.Bool
	// logSize is the size of the log at the last measurement, plus the size of all changes since.
	logSize atomic.Int64
}

type reaperMetrics struct {
	dropped *prometheus.CounterVec // events, by limit
	pruned  *prometheus.CounterVec // changes, by limit
}

// NewReaper returns a reaper. It can observe changes at once. Set its view and writer with
// [Reaper.Use].
func NewReaper(config ReaperConfig) *Reaper {
	r := &Reaper{ReaperConfig: config, metrics: reaperMetrics{
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registry_events_dropped_total",
			Help: "Events deleted before their time, by limit: max-events, max-event-bytes or max-events-per-writer.",
		}, []string{"limit"}),
		pruned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registry_log_pruned_total",
			Help: "Changes deleted from the log, by limit: log-retention or log-bytes.",
		}, []string{"limit"}),
	}}
	for _, limit := range []string{limitRetention, limitLogBytes} {
		r.metrics.pruned.WithLabelValues(limit)
	}
	for _, limit := range []string{limitEvents, limitEventBytes, limitPerWriter} {
		r.metrics.dropped.WithLabelValues(limit)
	}
	config.Metrics.MustRegister(r.metrics.dropped, r.metrics.pruned, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_registry_log_bytes", Help: "Size of the objects in the change log.",
	}, func() float64 { return float64(r.logSize.Load()) }))
	r.unmeasured.Store(true)
	return r
}

// Limits of the log, by the name of their flag.
const (
	limitRetention = "log-retention"
	limitLogBytes  = "log-bytes"
)

// Use sets the view and the writer. It must be called before Run.
func (r *Reaper) Use(v *view.View, writer *admission.Writer) { r.view, r.writer = v, writer }

// Observe counts the size of changes that were added to the log.
func (r *Reaper) Observe(changes []*view.Change) {
	size := 0
	for _, change := range changes {
		size += len(change.Last.Bytes)
	}
	r.logSize.Add(int64(size))
}

// Reset has the log measured again, because the store was replaced.
func (r *Reaper) Reset() { r.unmeasured.Store(true) }

// Run reaps until ctx is done.
func (r *Reaper) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.Every)
	defer ticker.Stop()
	outage := obs.Outage{Log: r.Log, Down: "old events and changes are kept for now", Up: "old events and changes go again"}
	for ctx.Err() == nil {
		switch err := r.reap(ctx); {
		case err == nil:
			outage.Over()
		case ctx.Err() == nil:
			outage.Failed(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

func (r *Reaper) reap(ctx context.Context) error {
	for _, due := range r.dueEvents(time.Now()) {
		if err := r.writer.Remove(ctx, due.item); err != nil {
			return fmt.Errorf("remove %s: %w", due.item.Key, err)
		}
		if due.limit != "" {
			r.metrics.dropped.WithLabelValues(due.limit).Inc()
		}
	}
	for _, item := range r.expired(time.Now()) {
		if err := r.writer.Remove(ctx, item); err != nil {
			return fmt.Errorf("remove %s: %w", item.Key, err)
		}
	}
	if err := r.pruneByNumber(ctx); err != nil {
		return err
	}
	return r.pruneBySize(ctx)
}

// pruneByNumber deletes the changes beyond the retention when they exceed it by a tenth.
func (r *Reaper) pruneByNumber(ctx context.Context) error {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return err
	}
	if head.Revision-head.Oldest < r.Retention+r.Retention/10 {
		return nil
	}
	return r.prune(ctx, head.Revision-r.Retention, limitRetention)
}

// pruneBySize deletes the oldest changes when the log exceeds its size, so many that a tenth of
// its size is free. The log is read only if it may be too large.
func (r *Reaper) pruneBySize(ctx context.Context) error {
	if !r.unmeasured.Load() && r.logSize.Load() <= r.LogBytes {
		return nil
	}
	size, through, err := r.measure(ctx)
	if err != nil || size <= r.LogBytes {
		return err
	}
	r.Log.Warn("the log is larger than log-bytes: old changes are deleted early", "bytes", size, "through", through)
	if err := r.prune(ctx, through, limitLogBytes); err != nil {
		return err
	}
	_, _, err = r.measure(ctx)
	return err
}

// measure reads the size of the log, and the revision through which to prune it.
func (r *Reaper) measure(ctx context.Context) (size int64, through uint64, err error) {
	r.unmeasured.Store(false)
	before := r.logSize.Load()
	size, through, err = r.Store.LogSize(ctx, r.LogBytes-r.LogBytes/10)
	if err != nil {
		r.unmeasured.Store(true)
		return 0, 0, err
	}
	r.logSize.Add(size - before) // changes that were observed meanwhile stay counted
	return size, through, nil
}

func (r *Reaper) prune(ctx context.Context, through uint64, limit string) error {
	n, err := r.Store.Prune(ctx, through)
	r.metrics.pruned.WithLabelValues(limit).Add(float64(n))
	r.unmeasured.Store(true)
	if err == nil {
		r.Log.Debug("log pruned", "records", n)
	}
	return err
}
