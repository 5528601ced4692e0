package verifier

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/wake"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Registry is the registry as the verifier calls it directly.
type Registry interface {
	// Get returns an object, or nil if it does not exist.
	Get(ctx context.Context, key object.Key) (object.Object, error)
	// Services returns the services of a namespace.
	Services(ctx context.Context, namespace string) ([]*corev1.Service, error)
	// DeleteLease deletes a Lease of a reserve. It is no error if there is none.
	DeleteLease(ctx context.Context, name string) error
	// Head returns the newest revision of the log and the log's epoch.
	Head(ctx context.Context) (epoch string, revision uint64, err error)
	// Report records an event on a service or a node.
	Report(ctx context.Context, about object.Object, typ corev1.EventType, reason, message string) error
}

// Config is the configuration of a [Verifier].
type Config struct {
	Engine   *engine.Engine
	Registry Registry
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Guard catches panics of the work for one object.
	Guard *guard.Guard
	// Health receives the check [HealthCheck].
	Health *health.Registry
	// Grace is how long a difference must last before a value is freed.
	Grace time.Duration
	// Interval is the time between two comparisons of everything.
	Interval time.Duration
	// ViewCurrent reports whether the view is up to date.
	ViewCurrent func() bool
	// Epoch returns the epoch of the log that the changes for Apply come from.
	Epoch func() string
}

// Verifier compares the allocated values with the registry's objects. The follower calls Apply,
// possibly from another goroutine than Run's.
type Verifier struct {
	cfg     Config
	metrics *metrics
	view    *view
	wake    wake.Signal // services have changed
	moved   wake.Signal // the view has moved on in the log
	gate    *gate
	keeping obs.Outage // of keepReserves

	// losses belongs to the goroutine of keepReserves: how often the engine's store had gone back when
	// the values of all objects were adopted.
	losses uint64

	// The following fields belong to the goroutine of compare.

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
		cfg: cfg, metrics: newMetrics(cfg.Metrics), view: newView(cfg.Guard),
		wake: wake.New(), moved: wake.New(), gate: newGate(),
		keeping:     obs.Outage{Log: cfg.Log, Down: "values of objects not adopted, or reserves not closed, still trying", Up: "values of objects and reserves in order", Tolerate: time.Second},
		differences: map[valueOwner]time.Time{}, reported: map[eventSubject]string{}, foundInPass: map[eventSubject]bool{},
		outage: obs.Outage{Log: cfg.Log, Down: "registry does not answer the verifier", Up: "registry answers the verifier again"},
	}
}

// Apply applies changes of the registry's objects. The first batch is a complete snapshot.
func (v *Verifier) Apply(_ context.Context, batch []changes.Change, revision uint64) error {
	at := position{epoch: v.cfg.Epoch(), revision: revision}
	if !v.gate.isOpenFor(at.epoch) && v.gate.shut() {
		v.cfg.Health.Set(HealthCheck, errNewLog)
	}
	if v.view.apply(batch, at) {
		v.wake.Send()
	}
	v.moved.Send()
	return nil
}

// lagTolerance returns how long changes are collected, and how long a value may be missing before
// it is allocated, because the view lags a little behind the registry.
func (v *Verifier) lagTolerance() time.Duration { return min(2*time.Second, v.cfg.Grace/4) }

// Run compares, adopts and closes reserves until ctx is done.
func (v *Verifier) Run(ctx context.Context) error {
	return app.RunTasks(ctx,
		app.Task{Name: "compare", Run: v.compare},
		app.Task{Name: "reserves", Run: v.keepReserves},
	)
}

// compare compares until ctx is done: changed services shortly after the change, and everything at
// each interval.
func (v *Verifier) compare(ctx context.Context) error {
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
			v.reconcileChanged(ctx)
		}
	}
}

// reconcileChanged allocates the values that changed services have without an allocation. It reads the
// allocations first, because another replica may have made them.
func (v *Verifier) reconcileChanged(ctx context.Context) {
	if err := v.cfg.Engine.Refresh(ctx); err != nil {
		v.cfg.Log.Warn("allocations not read", "err", err)
		return // the next pass compares all services
	}
	v.allocateMissing(ctx, v.view.nextChanged())
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
	if !v.mayDecide() {
		return
	}
	v.view.nextChanged()
	v.forgetDeleted()
	before := v.differences
	v.differences = make(map[valueOwner]time.Time, len(before))
	clear(v.foundInPass)
	v.freeUnowned(ctx, before)
	v.allocateMissing(ctx, v.view.services())
	v.reportNodes(ctx)
	// A difference that has disappeared is reported again if it comes back.
	maps.DeleteFunc(v.reported, func(n eventSubject, _ string) bool { return !v.foundInPass[n] })
	v.metrics.passes.Inc()
}

// mayDecide reports whether the verifier may act on differences to the view. It may not if the view is
// outdated, or if the values of the view's objects are still being adopted.
func (v *Verifier) mayDecide() bool {
	at, _ := v.view.position()
	return v.gate.isOpenFor(at.epoch) && v.cfg.ViewCurrent()
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

// freeUnowned frees values that no object has, confirms values of objects that were left unconfirmed,
// and settles values of objects that are still in reserves. Other values in reserves stay.
func (v *Verifier) freeUnowned(ctx context.Context, before map[valueOwner]time.Time) {
	now := time.Now()
	var free []allocation.Allocation
	var confirm []engine.OwnerSlots
	var reserved []allocation.Allocation
	all, shared := v.cfg.Engine.Allocations(), newSharing(v.view.services())
	moving := shared.movingSlots(all)
	for _, h := range all {
		if h.Owner.Kind == store.KindReserve {
			reserved = append(reserved, h)
			continue
		}
		// A value stays as it is if the work for it panics.
		v.cfg.Guard.Run(stepFree, guard.Object{Kind: h.Owner.Kind, Namespace: h.Owner.Namespace, Name: h.Owner.Name}, func() {
			young := now.Sub(newest(h)) < v.cfg.Grace
			verdict := v.classify(h, shared)
			switch {
			case verdict == owned && !young:
				confirm = append(confirm, slices.DeleteFunc(unconfirmed(h), func(o engine.OwnerSlots) bool { return moving[sharedSlot{o.UID, o.Slots[0]}] })...)
			case verdict != unowned:
			case v.ageOf(valueOwner{h.Owner.UID, h.Value}, before, now) < v.cfg.Grace || young:
			case v.absentInRegistry(ctx, h):
				free = append(free, h)
			}
		})
	}
	v.confirm(ctx, confirm)
	v.free(ctx, free)
	v.settleReserved(ctx, reserved, before)
}

// Steps for an object that can panic apart.
const (
	stepFree     = "free"
	stepAllocate = "allocate"
	stepNode     = "address"
)

// forgetDeleted forgets the panics of objects that do not exist any more.
func (v *Verifier) forgetDeleted() {
	for _, step := range []string{stepFree, stepAllocate, stepNode} {
		v.cfg.Guard.Forget(step, func(about guard.Object) bool {
			return !slices.ContainsFunc(v.view.all(), func(o object.Object) bool { return guard.Object(object.KeyOf(o)) == about })
		})
	}
}

// ownership is the result of classify for a value.
type ownership int

const (
	unknownOwner ownership = iota // of an owner that the registry does not have
	owned
	promised // of a live object that does not have it yet
	unowned
)

// classify compares a value with the objects of the view. shared is an index of the view's services.
func (v *Verifier) classify(h allocation.Allocation, shared *sharing) ownership {
	o := v.view.get(h.Owner.UID)
	svc, isService := o.(*corev1.Service)
	switch {
	case h.Owner.Kind == spec.KindAddressShare:
		return shared.classify(h)
	case isService && hasValue(svc, h.Use, h.Value) && !isStored(svc, h.Use, h.Value):
		return promised
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
	if h.Owner.Kind == spec.KindAddressShare {
		shared, err := v.sharedInRegistry(ctx, h)
		return err == nil && !shared
	}
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
