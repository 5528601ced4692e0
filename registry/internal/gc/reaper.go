package gc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/obs"
)

// Reaper bounds the number of events and the length of the change log.
type Reaper struct {
	View   *view.View
	Store  store.Store
	Writer *admission.Writer
	Log    *slog.Logger

	EventTTL  time.Duration // age at which an event that was not repeated is deleted
	MaxEvents int           // beyond this number the oldest are deleted
	Retention uint64        // changes that the log keeps
	Every     time.Duration // interval
}

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
	for _, item := range r.dueEvents(time.Now()) {
		if err := r.Writer.Remove(ctx, item); err != nil {
			return fmt.Errorf("remove %s: %w", item.Key, err)
		}
	}
	return r.pruneLog(ctx)
}

// dueEvents returns the events that are too old, and the oldest of the others if there are too
// many.
func (r *Reaper) dueEvents(now time.Time) []*view.Item {
	var young, due []*view.Item
	for item := range r.View.State().All("Event", "") {
		if now.Sub(lastSeen(item)) > r.EventTTL {
			due = append(due, item)
		} else {
			young = append(young, item)
		}
	}
	if more := len(young) - r.MaxEvents; more > 0 {
		slices.SortFunc(young, func(a, b *view.Item) int {
			return cmp.Or(lastSeen(a).Compare(lastSeen(b)), cmp.Compare(a.Revision, b.Revision))
		})
		due = append(due, young[:more]...)
	}
	return due
}

func lastSeen(item *view.Item) time.Time {
	event, _ := item.Object.(*corev1.Event)
	if at := event.GetLastTimestamp(); at != nil {
		return at.AsTime()
	}
	return event.GetMetadata().GetCreationTimestamp().AsTime()
}

// pruneLog deletes the changes beyond the retention when they exceed it by a tenth.
func (r *Reaper) pruneLog(ctx context.Context) error {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return err
	}
	if head.Revision-head.Oldest < r.Retention+r.Retention/10 {
		return nil
	}
	n, err := r.Store.Prune(ctx, head.Revision-r.Retention)
	if err == nil {
		r.Log.Debug("log pruned", "records", n)
	}
	return err
}
