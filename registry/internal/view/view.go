package view

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/health"
)

const (
	batchSize  = 1000                   // records read at once
	pollEvery  = time.Second            // interval of polling, which bounds the delay after a lost wake-up
	retryEvery = 100 * time.Millisecond // between attempts to read from a failing store
	maxLag     = 3 * time.Second        // how long the view may be behind before the health check fails
)

// Config is the configuration of a view. Everything but Indexes and the hooks is required.
type Config struct {
	Store   store.Store
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Health  *health.Registry
	// Indexes are updated by the view.
	Indexes []*Index
	// Publish is called after each update of the view, in order, with the changes since the
	// previous state.
	Publish func(state *State, changes []*Change)
	// Reset is called instead of Publish if the view was read anew because the log does not lead
	// from the old state to the new one.
	Reset func(state *State)
}

// View follows the store. Make it with [New].
type View struct {
	config  Config
	state   atomic.Pointer[State]
	current atomic.Int64 // time at which the view was last known to be at the head, in Unix nanoseconds

	mu      sync.Mutex
	waiters map[*waiter]struct{}
}

// New reads all objects from the store and returns a view of them. The view follows the store while
// [View.Run] runs.
func New(ctx context.Context, config Config) (*View, error) {
	v := &View{config: config, waiters: map[*waiter]struct{}{}}
	state, err := v.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("read all objects: %w", err)
	}
	v.replace(state)
	v.current.Store(time.Now().UnixNano())
	v.measure()
	return v, nil
}

func (v *View) measure() {
	v.config.Metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_registry_view_revision", Help: "Revision that this replica answers from.",
		}, func() float64 { return float64(v.State().Revision()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_registry_view_age_seconds", Help: "Time since this replica was last known to have every change.",
		}, func() float64 { return v.age().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "portolan_registry_objects", Help: "Objects stored.",
		}, func() float64 { return float64(v.State().Len()) }),
	)
}

// State returns the newest state.
func (v *View) State() *State { return v.state.Load() }

func (v *View) age() time.Duration { return time.Since(time.Unix(0, v.current.Load())) }

// Run follows the store until ctx is done. While the store does not answer, the view keeps its
// state and Run tries again.
func (v *View) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wake := v.config.Store.Wake()
		more, err := v.advance(ctx)
		pause := pollEvery
		switch {
		case err != nil:
			wake, pause = nil, retryEvery
			v.report(err)
		case more:
			v.report(errCatchingUp)
			continue
		default:
			v.current.Store(time.Now().UnixNano())
			v.report(nil)
		}
		timer := time.NewTimer(pause)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// errCatchingUp means that the log has more changes than the view could apply so far.
var errCatchingUp = errors.New("there are more changes than it can take in")

// report sets the health check of the view and fails its waiters. An error that lasts no longer
// than tolerance is ignored.
func (v *View) report(err error) {
	switch {
	case err == nil:
		v.config.Health.Set("view", nil)
	case v.age() > maxLag && !errors.Is(err, context.Canceled):
		v.config.Health.Set("view", fmt.Errorf("behind the store: %w", err))
		if errors.Is(err, errCatchingUp) {
			return // the revision that a waiter waits for may still be reached
		}
		v.failWaiters(fmt.Errorf("%w: the view is behind: %w", store.ErrUnavailable, err))
	}
}

// advance applies one batch of the log and reports whether there may be more.
func (v *View) advance(ctx context.Context) (bool, error) {
	state := v.State()
	records, head, err := v.readChanges(ctx, state)
	if pruned := (*store.Pruned)(nil); errors.As(err, &pruned) {
		return true, v.reload(ctx)
	}
	if err != nil {
		return false, err
	}
	if head.Epoch != state.epoch {
		return true, v.reload(ctx)
	}
	if len(records) == 0 {
		return false, nil
	}
	next, changes, err := v.apply(state, records)
	if err != nil {
		return false, err
	}
	v.advanceTo(next, changes)
	return next.revision < head.Revision, nil
}

// readChanges returns the records after a state. It prefers the tail of records that this process
// committed, which needs no read of the database.
func (v *View) readChanges(ctx context.Context, state *State) ([]store.Record, store.Head, error) {
	if records, head := v.config.Store.Tail(state.epoch, state.revision, batchSize); len(records) > 0 {
		return records, head, nil
	}
	return v.config.Store.Changes(ctx, state.revision, batchSize)
}

// apply returns the state after the records, and the changes that lead to it.
func (v *View) apply(state *State, records []store.Record) (*State, []*Change, error) {
	next := &State{epoch: state.epoch, revision: state.revision, kinds: maps.Clone(state.kinds)}
	changes := make([]*Change, 0, len(records))
	for _, record := range records {
		if record.Revision != next.revision+1 {
			return nil, nil, fmt.Errorf("revision %d follows %d in the log", record.Revision, next.revision)
		}
		next.revision = record.Revision
		kind, key := next.kinds[record.Key.Kind], record.Key
		change := &Change{Revision: record.Revision, Type: record.Type}
		if record.Type == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			kind, change.Old = kind.remove(key.Namespace, key.Name)
			change.Last = change.Old
		} else {
			item, err := itemOf(&record)
			if err != nil {
				return nil, nil, fmt.Errorf("revision %d: %w", record.Revision, err)
			}
			kind, change.Old = kind.put(item)
			change.New, change.Last = item, item
		}
		next.kinds[key.Kind] = kind
		// A deletion without an object would be a fault of the store. It is left out because it has
		// nothing to report.
		if change.Last != nil {
			changes = append(changes, change)
		}
	}
	return next, changes, nil
}

// advanceTo makes next the newest state. It updates in this order: indexes, readers, the Publish hook,
// waiters.
func (v *View) advanceTo(next *State, changes []*Change) {
	for _, change := range changes {
		for _, index := range v.config.Indexes {
			index.replace(change.Old, change.New)
		}
	}
	v.state.Store(next)
	if v.config.Publish != nil {
		v.config.Publish(next, changes)
	}
	v.wakeWaiters(next)
}

// reload reads all objects anew because the log does not continue from the state of the view. If
// only the epoch is new, Reset is not called.
func (v *View) reload(ctx context.Context) error {
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	old := v.State()
	if old.sameObjects(state) {
		v.advanceTo(state, nil)
		return nil
	}
	v.config.Log.Warn("view read anew", "revision", old.revision, "new_revision", state.revision, "epoch", state.epoch)
	v.replace(state)
	if v.config.Reset != nil {
		v.config.Reset(state)
	}
	v.wakeWaiters(state)
	return nil
}

// replace makes state the newest one and rebuilds the indexes from it.
func (v *View) replace(state *State) {
	old := v.state.Swap(state)
	for _, index := range v.config.Indexes {
		if old != nil {
			for item := range old.everything() {
				index.replace(item, nil)
			}
		}
		for item := range state.everything() {
			index.replace(nil, item)
		}
	}
}

func (v *View) read(ctx context.Context) (*State, error) {
	state := &State{kinds: map[string]tree{}}
	err := v.config.Store.Snapshot(ctx, func(head store.Head, rows iter.Seq2[store.Row, error]) error {
		state.epoch, state.revision = head.Epoch, head.Revision
		for row, err := range rows {
			if err != nil {
				return err
			}
			item, err := itemOf(&store.Record{Key: row.Key, Data: row.Data, Revision: row.Revision})
			if err != nil {
				return fmt.Errorf("%s: %w", row.Key, err)
			}
			state.kinds[row.Key.Kind], _ = state.kinds[row.Key.Kind].put(item)
		}
		return nil
	})
	return state, err
}
