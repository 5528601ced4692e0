package verify

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/book"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
)

// Registry is what the verifier asks the registry directly.
type Registry interface {
	// Get returns an object, nil if there is none.
	Get(ctx context.Context, key object.Key) (object.Object, error)
	// Report records an event on a service.
	Report(ctx context.Context, svc *corev1.Service, typ corev1.EventType, reason, message string) error
}

// Config is what a verifier needs.
type Config struct {
	Engine   *engine.Engine
	Registry Registry
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Health learns whether the values that objects have are known.
	Health *health.Registry
	// Grace is how long a difference must stand before a value is freed.
	Grace time.Duration
	// Interval is the time between two comparisons of everything.
	Interval time.Duration
	// Fresh says whether the view is complete up to a moment ago.
	Fresh func() bool
}

// Verifier compares. Apply is for the follower, which may call it from another
// goroutine than Run's.
type Verifier struct {
	cfg     Config
	metrics *metrics
	view    *view
	wake    chan struct{}
	takenUp chan struct{}

	// applied belongs to the goroutine that calls Apply.
	applied bool // the first snapshot

	// All below belongs to the goroutine of Run.

	suspects map[suspect]time.Time // since when a difference stands
	reported map[notice]string     // the last event on it
	standing map[notice]bool       // what was found again in this pass
	outage   obs.Outage            // of the registry, asked directly
}

// suspect is a value and who has it, or should have.
type suspect struct {
	uid   string
	value pool.Value
}

// notice is a field of a service that an event can be about, and the service
// that has the same value, where the event names one.
type notice struct {
	uid   string
	field string
	other string // its UID
}

// New returns a verifier that knows no objects yet.
func New(cfg Config) *Verifier {
	cfg.Health.Set(HealthCheck, errNotTakenUp)
	return &Verifier{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), view: newView(), wake: make(chan struct{}, 1), takenUp: make(chan struct{}),
		suspects: map[suspect]time.Time{}, reported: map[notice]string{}, standing: map[notice]bool{},
		outage: obs.Outage{Log: cfg.Log, Down: "registry does not answer the verifier", Up: "registry answers the verifier again"},
	}
}

// Apply takes in what has changed in the registry. The first batch is a complete
// snapshot; Apply returns when all values in it are taken up.
func (v *Verifier) Apply(ctx context.Context, batch []changes.Change, _ uint64) error {
	if !v.applied {
		if err := v.takeUp(ctx, batch); err != nil {
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

// settle is how long changes are collected, and how long a value may be missing
// before it is allocated anew: the view lags behind the registry a little.
func (v *Verifier) settle() time.Duration { return min(2*time.Second, v.cfg.Grace/4) }

// Run compares until ctx is done: what has changed soon after it did, and
// everything now and then.
func (v *Verifier) Run(ctx context.Context) error {
	ticker := time.NewTicker(v.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			v.pass(ctx)
		case <-v.wake:
			if !app.Pause(ctx, v.settle()) {
				return nil
			}
			v.allocateMissing(ctx, v.view.takeDirty())
		}
	}
}

// pass compares everything.
func (v *Verifier) pass(ctx context.Context) {
	if err := v.cfg.Engine.Forget(ctx); err != nil {
		v.cfg.Log.Warn("forget what has rested", "err", err)
	}
	if err := v.cfg.Engine.Refresh(ctx); err != nil {
		v.cfg.Log.Warn("read what is allocated", "err", err)
		return
	}
	if !v.cfg.Fresh() {
		return // an old view says nothing about what is there now
	}
	v.view.takeDirty()
	before := v.suspects
	v.suspects = make(map[suspect]time.Time, len(before))
	clear(v.standing)
	v.freeUnowned(ctx, before)
	v.allocateMissing(ctx, v.view.services())
	// What is gone, or mended, is said again should it come back.
	maps.DeleteFunc(v.reported, func(n notice, _ string) bool { return !v.standing[n] })
	v.metrics.passes.Inc()
}

// since returns how long a difference stands, and keeps it in mind.
func (v *Verifier) since(s suspect, before map[suspect]time.Time, now time.Time) time.Duration {
	first, ok := before[s]
	if !ok {
		first = now
	}
	v.suspects[s] = first
	return now.Sub(first)
}

// freeUnowned frees values that no object has, and confirms those that were
// left in between.
func (v *Verifier) freeUnowned(ctx context.Context, before map[suspect]time.Time) {
	now := time.Now()
	var free []book.Held
	var confirm []engine.Slots
	for _, h := range v.cfg.Engine.Held() {
		young := now.Sub(newest(h)) < v.cfg.Grace
		verdict := v.judge(h)
		switch {
		case verdict == owned && !young:
			confirm = append(confirm, unconfirmed(h)...)
		case verdict != unowned:
		case v.since(suspect{h.Owner.UID, h.Value}, before, now) < v.cfg.Grace || young:
		case v.goneForSure(ctx, h):
			free = append(free, h)
		}
	}
	v.confirm(ctx, confirm)
	v.free(ctx, free)
}

// verdict on a value.
type verdict int

const (
	foreign verdict = iota // not ours to judge
	owned
	unowned
)

func (v *Verifier) judge(h book.Held) verdict {
	o := v.view.get(h.Owner.UID)
	switch {
	case o != nil && has(o, h.Use, h.Value):
		return owned
	case o != nil:
		return unowned
	case h.Owner.Kind == kindService || h.Owner.Kind == kindPod:
		return unowned
	case len(unconfirmed(h)) == len(h.Claims):
		return unowned // held for somebody we cannot ask, who never came back
	default:
		return foreign
	}
}

// get asks the registry for an object; nil if there is none.
func (v *Verifier) get(ctx context.Context, key object.Key) (object.Object, error) {
	o, err := v.cfg.Registry.Get(ctx, key)
	if err != nil {
		v.outage.Failed(err, "object", key.String())
		return nil, err
	}
	v.outage.Over()
	return o, nil
}

// goneForSure asks the registry itself.
func (v *Verifier) goneForSure(ctx context.Context, h book.Held) bool {
	if h.Owner.Kind != kindService && h.Owner.Kind != kindPod {
		return true
	}
	key := object.Key{Kind: h.Owner.Kind, Namespace: h.Owner.Namespace, Name: h.Owner.Name}
	o, err := v.get(ctx, key)
	if err != nil {
		return false
	}
	return o == nil || o.GetMetadata().GetUid() != h.Owner.UID || !has(o, h.Use, h.Value)
}

func (v *Verifier) free(ctx context.Context, free []book.Held) {
	if len(free) == 0 {
		return
	}
	freed, err := v.cfg.Engine.Reclaim(ctx, free)
	if err != nil {
		v.cfg.Log.Warn("free values without owner", "err", err)
		return
	}
	v.metrics.freed.Add(float64(len(freed)))
	for _, value := range freed {
		v.cfg.Log.Info("value without owner freed", "value", value.String())
	}
}

func (v *Verifier) confirm(ctx context.Context, slots []engine.Slots) {
	if len(slots) == 0 {
		return
	}
	if _, _, err := v.cfg.Engine.Confirm(ctx, slots); err != nil {
		v.cfg.Log.Warn("confirm what objects have", "err", err)
		return
	}
	v.metrics.confirmed.Add(float64(len(slots)))
}

func newest(h book.Held) time.Time {
	var last time.Time
	for _, c := range h.Claims {
		if c.Since.After(last) {
			last = c.Since
		}
	}
	return last
}

func unconfirmed(h book.Held) []engine.Slots {
	var slots []engine.Slots
	for _, c := range h.Claims {
		if !c.Confirmed {
			slots = append(slots, engine.Slots{UID: h.Owner.UID, Slots: []string{c.Slot}})
		}
	}
	return slots
}
