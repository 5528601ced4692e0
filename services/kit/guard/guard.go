package guard

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/health"
)

// HealthCheck is the name of the warning about objects that are not applied.
const HealthCheck = "objects"

// Reason is the reason of an Event about an object that is not applied.
const Reason = "Panicked"

// Message is the message of the line in the log about an object that is not applied.
const Message = "object not applied"

// Object identifies an object. It has the fields of object.Key, which is converted to it.
type Object struct {
	Kind      string
	Namespace string // empty for kinds without namespaces
	Name      string
}

// String returns the object in the form used in messages: "Service default/web", "Node n1".
func (o Object) String() string { return o.Kind + " " + o.path() }

// path returns the object without its kind.
func (o Object) path() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Guard does work for objects and catches its panics. Its methods are safe for concurrent use, except ReportTo
// and Before, which are called before the work begins. A nil Guard catches nothing, so that tests of a part of a
// daemon see its panics.
type Guard struct {
	log    *slog.Logger
	health *health.Registry
	warn   func(about Object, reason, message string) // may be nil
	before func(step string, about Object)            // may be nil
	panics *prometheus.CounterVec

	count atomic.Int64 // len(failed), for readers without the lock

	mu     sync.Mutex
	failed map[work]string // guarded by mu: the panic of the last attempt
}

// work identifies a piece of work.
type work struct {
	step  string
	about Object
}

// New returns a guard of a daemon.
func New(log *slog.Logger, metrics prometheus.Registerer, checks *health.Registry) *Guard {
	g := &Guard{log: log, health: checks, failed: map[work]string{}}
	factory := promauto.With(metrics)
	g.panics = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "portolan_guard_panics_total", Help: "Panics while an object was applied, by the kind of the object. Each is a bug.",
	}, []string{"kind"})
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_guard_failing_objects", Help: "Objects that are not applied because the last attempt panicked. /readyz names them.",
	}, func() float64 { return float64(g.objects()) })
	return g
}

// ReportTo sets the function that writes an Event about an object. It must not wait.
func (g *Guard) ReportTo(warn func(about Object, reason, message string)) { g.warn = warn }

// Before sets a function that is called before each piece of work, as a part of it. Tests make the work for an
// object panic by it.
func (g *Guard) Before(call func(step string, about Object)) { g.before = call }

// Panic is the error of work that panicked.
type Panic struct {
	Step  string
	About Object
	Value any // of the panic
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprintf("%s: panic: %v", p.Step, p.Value) }

// GRPCStatus returns the status of a fault of the program, which a repetition does not cure, with the panic's text.
func (p *Panic) GRPCStatus() *status.Status { return status.New(codes.Internal, p.Error()) }

// Do does work for an object: a step, such as "plan". It returns the error of the work, or a [*Panic]. The step
// and the object together identify the work, so steps that can fail apart have different names.
func (g *Guard) Do(step string, about Object, do func() error) (err error) {
	if g == nil {
		return do()
	}
	defer g.recover(step, about, &err)
	if g.before != nil {
		g.before(step, about)
	}
	err = do()
	g.Done(step, about)
	return err
}

// Run does work that returns no error: a step for an object, as Do does it.
func (g *Guard) Run(step string, about Object, do func()) {
	_ = g.Do(step, about, func() error { // Do has reported a panic
		do()
		return nil
	})
}

// recover records a panic of work, and sets the error of Do.
func (g *Guard) recover(step string, about Object, err *error) {
	value := recover()
	if value == nil {
		return
	}
	caught := &Panic{Step: step, About: about, Value: value}
	*err = caught
	g.panics.WithLabelValues(about.Kind).Inc()
	g.log.Error(Message, "kind", about.Kind, "object", about.path(), "step", step, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	if g.record(work{step, about}, caught.Error()) && g.warn != nil {
		g.warn(about, Reason, caught.Error()+": the object is not applied. This is a bug, and the log of the daemon has the stack. It is tried again when the object changes, if not before.")
	}
}

// record records that work has panicked, and reports whether that is news.
func (g *Guard) record(w work, text string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed[w] == text {
		return false
	}
	g.failed[w] = text
	g.changed()
	return true
}

// succeeded records that work has ended without a panic.
func (g *Guard) succeeded(w work) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, failed := g.failed[w]; failed {
		delete(g.failed, w)
		g.changed()
	}
}

// Done records that a step is not due for an object any more, because the object is deleted.
func (g *Guard) Done(step string, about Object) {
	if g != nil && g.count.Load() > 0 {
		g.succeeded(work{step, about})
	}
}

// Failed reports whether the last attempt at a step for an object panicked.
func (g *Guard) Failed(step string, about Object) bool {
	if g == nil || g.count.Load() == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, failed := g.failed[work{step, about}]
	return failed
}

// Forget forgets the panics of a step for the objects for which match returns true, because the step is not done
// for them any more: they are deleted, or another replica does it.
func (g *Guard) Forget(step string, match func(Object) bool) {
	for _, w := range g.failing(step) {
		if match(w.about) { // without the lock, because match may take the lock of a view that is applying objects
			g.succeeded(w)
		}
	}
}

// Failing reports whether the last attempt at one of the steps panicked for any object.
func (g *Guard) Failing(steps ...string) bool { return len(g.failing(steps...)) > 0 }

// failing returns the work of the given steps that has panicked.
func (g *Guard) failing(steps ...string) (all []work) {
	if g == nil || g.count.Load() == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range g.failed {
		if slices.Contains(steps, w.step) {
			all = append(all, w)
		}
	}
	return all
}

// maxNamed is the number of objects that the warning names.
const maxNamed = 10

// changed updates what depends on failed. The caller holds mu.
func (g *Guard) changed() {
	g.count.Store(int64(len(g.failed)))
	if len(g.failed) == 0 {
		g.health.Warn(HealthCheck, nil)
		return
	}
	var texts []string
	for w, text := range g.failed {
		texts = append(texts, w.about.String()+": "+text)
	}
	slices.Sort(texts)
	more := ""
	if len(texts) > maxNamed {
		texts, more = texts[:maxNamed], fmt.Sprintf("; and %d more", len(texts)-maxNamed)
	}
	g.health.Warn(HealthCheck, fmt.Errorf("not applied: %s%s", strings.Join(texts, "; "), more))
}

// objects returns the number of objects that are not applied.
func (g *Guard) objects() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[Object]bool{}
	for w := range g.failed {
		all[w.about] = true
	}
	return len(all)
}
