package verifier

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
)

// Registry is the registry as the verifier calls it directly.
type Registry interface {
	// Get returns an object, or nil if it does not exist.
	Get(ctx context.Context, key object.Key) (object.Object, error)
	// Report records an event on a service.
	Report(ctx context.Context, svc *corev1.Service, typ corev1.EventType, reason, message string) error
}

// Config is the configuration of a [Verifier].
type Config struct {
	Engine   *engine.Engine
	Registry Registry
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Health receives the check [HealthCheck].
	Health *health.Registry
	// Grace is how long a difference must last before a value is freed.
	Grace time.Duration
	// Interval is the time between two comparisons of everything.
	Interval time.Duration
	// ViewCurrent reports whether the view is up to date.
	ViewCurrent func() bool
}

// Verifier compares the allocated values with the registry's objects. The follower calls Apply,
// possibly from another goroutine than Run's.
type Verifier struct {
	cfg     Config
	metrics *metrics
	view    *view
	wake    chan struct{}
	adopted chan struct{}

	// applied belongs to the goroutine that calls Apply.
	applied bool // the first snapshot was applied

	// The following fields belong to the goroutine of Run.

	differences map[valueOwner]time.Time // since when a difference exists
	reported    map[eventSubject]string  // the last event about it
	foundInPass map[eventSubject]bool    // notices that were found again in this pass
	outage      obs.Outage               // of direct calls to the registry
}

// valueOwner is a value with the owner that has it, or should have it.
type valueOwner struct {
	uid   string
	value pool.Value
}

// eventSubject identifies the subject of an event: a field of a service, and the service with the
// same value if the event names one.
type eventSubject struct {
	uid   string
	field string
	other string // UID of the other service
}

// New returns a verifier without objects.
func New(cfg Config) *Verifier {
	cfg.Health.Set(HealthCheck, errNotAdopted)
	return &Verifier{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), view: newView(), wake: make(chan struct{}, 1), adopted: make(chan struct{}),
		differences: map[valueOwner]time.Time{}, reported: map[eventSubject]string{}, foundInPass: map[eventSubject]bool{},
		outage: obs.Outage{Log: cfg.Log, Down: "registry does not answer the verifier", Up: "registry answers the verifier again"},
	}
}

// Apply applies changes of the registry's objects. The first batch is a complete snapshot, for
// which Apply returns when all its values are adopted.
func (v *Verifier) Apply(ctx context.Context, batch []changes.Change, _ uint64) error {
	if !v.applied {
		if err := v.adoptSnapshot(ctx, batch); err != nil {
			return err
		}
		v.applied = true
	}
	if v.view.apply(batch) {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// lagTolerance returns how long changes are collected, and how long a value may be missing before
// it is allocated, because the view lags a little behind the registry.
func (v *Verifier) lagTolerance() time.Duration { return min(2*time.Second, v.cfg.Grace/4) }

// Run compares until ctx is done: changed services shortly after the change, and everything at each
// interval.
func (v *Verifier) Run(ctx context.Context) error {
	ticker := time.NewTicker(v.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			v.reconcileAll(ctx)
		case <-v.wake:
			if !app.Pause(ctx, v.lagTolerance()) {
				return nil
			}
			v.allocateMissing(ctx, v.view.nextChanged())
		}
	}
}

// reconcileAll compares everything.
func (v *Verifier) reconcileAll(ctx context.Context) {
	if err := v.cfg.Engine.DeleteExpired(ctx); err != nil {
		v.cfg.Log.Warn("rested values not deleted", "err", err)
	}
	if err := v.cfg.Engine.Refresh(ctx); err != nil {
		v.cfg.Log.Warn("allocations not read", "err", err)
		return
	}
	if !v.cfg.ViewCurrent() {
		return // an outdated view must not decide
	}
	v.view.nextChanged()
	before := v.differences
	v.differences = make(map[valueOwner]time.Time, len(before))
	clear(v.foundInPass)
	v.freeUnowned(ctx, before)
	v.allocateMissing(ctx, v.view.services())
	// A difference that has disappeared is reported again if it comes back.
	maps.DeleteFunc(v.reported, func(n eventSubject, _ string) bool { return !v.foundInPass[n] })
	v.metrics.passes.Inc()
}

// ageOf returns how long a difference has lasted, and records it for the next pass.
func (v *Verifier) ageOf(s valueOwner, before map[valueOwner]time.Time, now time.Time) time.Duration {
	first, ok := before[s]
	if !ok {
		first = now
	}
	v.differences[s] = first
	return now.Sub(first)
}

// freeUnowned frees values that no object has, and confirms values of objects that were left
// unconfirmed.
func (v *Verifier) freeUnowned(ctx context.Context, before map[valueOwner]time.Time) {
	now := time.Now()
	var free []allocation.Allocation
	var confirm []engine.OwnerSlots
	for _, h := range v.cfg.Engine.Allocations() {
		young := now.Sub(newest(h)) < v.cfg.Grace
		verdict := v.classify(h)
		switch {
		case verdict == owned && !young:
			confirm = append(confirm, unconfirmed(h)...)
		case verdict != unowned:
		case v.ageOf(valueOwner{h.Owner.UID, h.Value}, before, now) < v.cfg.Grace || young:
		case v.absentInRegistry(ctx, h):
			free = append(free, h)
		}
	}
	v.confirm(ctx, confirm)
	v.free(ctx, free)
}

// ownership is the result of classify for a value.
type ownership int

const (
	unknownOwner ownership = iota // of an owner that the registry does not have
	owned
	unowned
)

func (v *Verifier) classify(h allocation.Allocation) ownership {
	o := v.view.get(h.Owner.UID)
	switch {
	case o != nil && hasValue(o, h.Use, h.Value):
		return owned
	case o != nil:
		return unowned
	case h.Owner.Kind == kindService || h.Owner.Kind == kindPod:
		return unowned
	case len(unconfirmed(h)) == len(h.Claims):
		return unowned // held for an owner of another kind, and never confirmed
	default:
		return unknownOwner
	}
}

// get reads an object from the registry. It returns nil if the object does not exist.
func (v *Verifier) get(ctx context.Context, key object.Key) (object.Object, error) {
	o, err := v.cfg.Registry.Get(ctx, key)
	if err != nil {
		v.outage.Failed(err, "object", key.String())
		return nil, err
	}
	v.outage.Over()
	return o, nil
}

// absentInRegistry reports whether the owner no longer has the value according to the registry,
// because the view may lag behind it.
func (v *Verifier) absentInRegistry(ctx context.Context, h allocation.Allocation) bool {
	if h.Owner.Kind != kindService && h.Owner.Kind != kindPod {
		return true
	}
	key := object.Key{Kind: h.Owner.Kind, Namespace: h.Owner.Namespace, Name: h.Owner.Name}
	o, err := v.get(ctx, key)
	if err != nil {
		return false
	}
	return o == nil || o.GetMetadata().GetUid() != h.Owner.UID || !hasValue(o, h.Use, h.Value)
}

func (v *Verifier) free(ctx context.Context, free []allocation.Allocation) {
	if len(free) == 0 {
		return
	}
	freed, err := v.cfg.Engine.Reclaim(ctx, free)
	if err != nil {
		v.cfg.Log.Warn("values without owner not freed", "err", err)
		return
	}
	v.metrics.freed.Add(float64(len(freed)))
	for _, value := range freed {
		v.cfg.Log.Info("value without owner freed", "value", value.String())
	}
}

func (v *Verifier) confirm(ctx context.Context, slots []engine.OwnerSlots) {
	if len(slots) == 0 {
		return
	}
	if _, _, err := v.cfg.Engine.Confirm(ctx, slots); err != nil {
		v.cfg.Log.Warn("values of objects not confirmed", "err", err)
		return
	}
	v.metrics.confirmed.Add(float64(len(slots)))
}

func newest(h allocation.Allocation) time.Time {
	var last time.Time
	for _, c := range h.Claims {
		if c.Since.After(last) {
			last = c.Since
		}
	}
	return last
}

func unconfirmed(h allocation.Allocation) []engine.OwnerSlots {
	var slots []engine.OwnerSlots
	for _, c := range h.Claims {
		if !c.Confirmed {
			slots = append(slots, engine.OwnerSlots{UID: h.Owner.UID, Slots: []string{c.Slot}})
		}
	}
	return slots
}
