package guardtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
)

// World is a guard with the metrics and the health to which it reports. Its methods are safe for concurrent use.
type World struct {
	*guard.Guard
	t       testing.TB
	metrics prometheus.Gatherer
	health  *health.Registry
	broken  atomic.Pointer[func(step string, o guard.Object) bool]

	mu     sync.Mutex
	events []string
}

// New returns a guard for a part of a daemon. It records Events.
func New(t testing.TB) *World {
	metrics, checks := obs.NewMetrics(), health.New(kittest.Logger(t))
	w := newWorld(t, guard.New(kittest.Logger(t), metrics, checks), metrics, checks)
	w.ReportTo(func(o guard.Object, reason, _ string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, o.String()+" "+reason)
	})
	return w
}

// Of returns the guard of a daemon's host, which writes Events to the registry. It is called before the daemon is
// made.
func Of(t testing.TB, host app.Host) *World {
	return newWorld(t, host.Guard, host.Metrics, host.Health)
}

func newWorld(t testing.TB, g *guard.Guard, metrics prometheus.Gatherer, checks *health.Registry) *World {
	w := &World{Guard: g, t: t, metrics: metrics, health: checks}
	g.Before(func(step string, o guard.Object) {
		if broken := w.broken.Load(); broken != nil && (*broken)(step, o) {
			panic("broken on purpose")
		}
	})
	return w
}

// Break makes each piece of work panic for which broken returns true, instead of the former ones.
func (w *World) Break(broken func(step string, o guard.Object) bool) { w.broken.Store(&broken) }

// BreakName makes the given step panic for all objects with a name, or each step if no step is given.
func (w *World) BreakName(name string, steps ...string) {
	w.Break(func(step string, o guard.Object) bool {
		return o.Name == name && (len(steps) == 0 || slices.Contains(steps, step))
	})
}

// Mend ends the panics.
func (w *World) Mend() { w.broken.Store(nil) }

// Events returns the Events so far, sorted.
func (w *World) Events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.events))
}

// Want checks that exactly these objects are reported as not applied: by the metrics, and by a warning of a
// daemon that stays ready. An object is given in the form "Service default/web".
func (w *World) Want(objects ...string) {
	w.t.Helper()
	if err := w.check(objects); err != nil {
		w.t.Error(err)
	}
}

// Await waits until exactly these objects are reported as not applied.
func (w *World) Await(objects ...string) {
	w.t.Helper()
	kittest.Eventually(w.t, fmt.Sprintf("the objects %q to be reported as not applied", objects), func() error { return w.check(objects) })
}

func (w *World) check(objects []string) error {
	warning := ""
	for _, text := range w.health.Warnings() {
		if strings.HasPrefix(text, guard.HealthCheck+": ") {
			warning = text
		}
	}
	for _, o := range objects {
		if !strings.Contains(warning, o+": ") {
			return fmt.Errorf("%s is not in the warning %q", o, warning)
		}
	}
	if failing := w.value("portolan_guard_failing_objects"); failing != float64(len(objects)) {
		return fmt.Errorf("the metric counts %v objects, and the warning is %q", failing, warning)
	}
	if panics := w.value("portolan_guard_panics_total"); panics < float64(len(objects)) {
		return fmt.Errorf("the metric counts %v panics", panics)
	}
	return nil
}

// value returns the sum of a metric over its labels.
func (w *World) value(name string) (sum float64) {
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Error(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}
