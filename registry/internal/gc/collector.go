package gc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

const (
	workers    = 8
	retryEvery = time.Second
	sweepEvery = time.Minute // a safety net for missed changes
)

// Collector removes objects that are no longer needed. Pass it every change with
// [Collector.Observe] and run it.
type Collector struct {
	view    *view.View
	indexes *rules.Indexes
	writer  *admission.Writer
	log     *slog.Logger
	queue   *queue
	graces  *graceTimers
}

// NewCollector returns a collector. It can observe changes at once. Set its view and writer with
// [Collector.Use].
func NewCollector(indexes *rules.Indexes, log *slog.Logger) *Collector {
	return &Collector{indexes: indexes, log: log, queue: newQueue(), graces: newGraces()}
}

// Use sets the view and the writer. It must be called before Run.
func (c *Collector) Use(v *view.View, writer *admission.Writer) { c.view, c.writer = v, writer }

// Observe queues the objects that a change of the view may have made unneeded. The view waits for
// it, so it only reads memory.
func (c *Collector) Observe(state *view.State, changes []*view.Change) {
	for _, change := range changes {
		if change.New == nil {
			c.observeEnd(state, change)
		} else {
			c.examine(state, change.New)
		}
	}
}

// examine queues an object if the collector may have to act on it, and sets a timer for the end of an
// object's grace period.
func (c *Collector) examine(state *view.State, item *view.Item) {
	switch ends, ok := admission.RemovalTime(item.Object); {
	case ok:
		c.graces.start(item.Key, ends, func() { c.queue.add(item.Key) })
	case c.needsCollection(state, item):
		c.queue.add(item.Key)
	}
}

// observeEnd queues the objects that may have depended on a deleted object.
func (c *Collector) observeEnd(state *view.State, change *view.Change) {
	key := change.Last.Key
	c.graces.cancel(key)
	c.queue.add(dependents(c.indexes, change.Last.Object.GetMetadata().GetUid())...)
	switch {
	case key.Kind == "Service": // its Endpoints belong to it by name only
		c.queue.addOrphan(object.Key{Kind: "Endpoints", Namespace: key.Namespace, Name: key.Name}, change.Revision)
	case key.Kind == "Namespace":
		c.addContents(state, key.Name)
	}
	if key.Namespace == "" {
		return
	}
	if namespace := state.Get(object.Key{Kind: "Namespace", Name: key.Namespace}); namespace != nil && terminating(namespace) {
		c.queue.add(namespace.Key)
	}
}

func terminating(item *view.Item) bool {
	return item.Object.GetMetadata().GetDeletionTimestamp() != nil
}

// needsCollection reports whether the collector has to act on an object.
func (c *Collector) needsCollection(state *view.State, item *view.Item) bool {
	if item.Key.Kind == "Namespace" {
		return terminating(item)
	}
	return !terminating(item) && c.unneeded(state, item, 0) != ""
}

func dependents(indexes *rules.Indexes, uid string) []object.Key {
	var keys []object.Key
	for _, item := range indexes.Owners.Lookup(uid) {
		keys = append(keys, item.Key)
	}
	return keys
}

// Run collects until ctx is done.
func (c *Collector) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		c.sweep()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	c.graces.stop()
	wg.Wait()
	return nil
}

// sweep looks at all objects.
func (c *Collector) sweep() {
	state := c.view.State()
	for _, row := range rules.All {
		for item := range state.All(row.Name, "") {
			c.examine(state, item)
		}
	}
}

func (c *Collector) work(ctx context.Context) {
	for {
		select {
		case <-c.queue.nonEmpty:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			key, goneAt, ok := c.queue.next()
			if !ok {
				break
			}
			if err := c.collect(ctx, key, goneAt); err != nil {
				c.requeue(ctx, key, goneAt, err)
			}
		}
	}
}

// requeue queues a failed object again after a pause, so that an unavailable store is not called in a
// tight loop.
func (c *Collector) requeue(ctx context.Context, key object.Key, goneAt uint64, err error) {
	if ctx.Err() != nil {
		return
	}
	c.log.Debug("collection postponed", "object", key.String(), "err", err)
	if app.Pause(ctx, retryEvery) {
		c.queue.addOrphan(key, goneAt)
	}
}

func (c *Collector) collect(ctx context.Context, key object.Key, goneAt uint64) error {
	state := c.view.State()
	item := state.Get(key)
	if item == nil {
		return nil
	}
	if key.Kind == "Namespace" {
		return c.emptyNamespace(ctx, state, item)
	}
	if ends, ok := admission.RemovalTime(item.Object); ok {
		if ends.After(time.Now()) {
			return nil // another change or the timer queues it again
		}
		return c.writer.Remove(ctx, item)
	}
	why := c.unneeded(state, item, goneAt)
	if why == "" {
		return nil
	}
	deletion := admission.Deletion{UID: item.Object.GetMetadata().GetUid(), Revision: item.Revision}
	_, err := c.writer.Delete(ctx, key, deletion, admission.Options{})
	switch {
	case apierr.IsNotFound(err):
		return nil
	case apierr.IsConflict(err):
		c.queue.addOrphan(key, goneAt) // it changed: examine it again
		return nil
	case err != nil:
		return err
	}
	c.log.Debug("collected", "object", key.String(), "why", why)
	return nil
}

// unneeded returns why an object may be deleted, or "". goneAt is the revision at which the service
// of its name was deleted, or 0.
func (c *Collector) unneeded(state *view.State, item *view.Item, goneAt uint64) string {
	if item.Key.Namespace != "" {
		namespace := state.Get(object.Key{Kind: "Namespace", Name: item.Key.Namespace})
		switch {
		case namespace == nil:
			return "its namespace is gone"
		case terminating(namespace):
			return "its namespace is being deleted"
		}
	}
	if c.orphaned(item) {
		return "its owners are gone"
	}
	if item.Revision < goneAt && state.Get(object.Key{Kind: "Service", Namespace: item.Key.Namespace, Name: item.Key.Name}) == nil {
		return "its service is gone"
	}
	return ""
}

// orphaned reports whether an object had owners and has none left. An owner of a kind that the
// registry does not store counts as existing.
func (c *Collector) orphaned(item *view.Item) bool {
	owners := item.Object.GetMetadata().GetOwnerReferences()
	for _, owner := range owners {
		if rules.Named(owner.GetKind()) == nil || c.indexes.UIDs.Has(owner.GetUid()) {
			return false
		}
	}
	return len(owners) > 0
}
