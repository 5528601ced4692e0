package guard_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/health"
)

var web, api = guard.Object{Kind: "Service", Namespace: "shop", Name: "web"}, guard.Object{Kind: "Service", Namespace: "shop", Name: "api"}

// world is a guard with everything that it reports to.
type world struct {
	*guard.Guard
	t       *testing.T
	log     bytes.Buffer
	metrics *prometheus.Registry
	health  *health.Registry
	events  []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, metrics: prometheus.NewRegistry(), health: health.New(slog.New(slog.DiscardHandler))}
	w.Guard = guard.New(slog.New(slog.NewJSONHandler(&w.log, nil)), w.metrics, w.health)
	w.ReportTo(func(about guard.Object, reason, message string) {
		w.events = append(w.events, about.String()+" "+reason+" "+message)
	})
	return w
}

func (w *world) panics(step string, about guard.Object, value any) error {
	return w.Do(step, about, func() error { panic(value) })
}

func (w *world) succeeds(step string, about guard.Object) {
	w.t.Helper()
	if err := w.Do(step, about, func() error { return nil }); err != nil {
		w.t.Error(err)
	}
}

// want checks the objects that are not applied, and the number of panics so far.
func (w *world) want(panics int, failing ...guard.Object) {
	w.t.Helper()
	expected := fmt.Sprintf(`# HELP portolan_guard_failing_objects Objects that are not applied because the last attempt panicked. /readyz names them.
# TYPE portolan_guard_failing_objects gauge
portolan_guard_failing_objects %d
# HELP portolan_guard_panics_total Panics while an object was applied, by the kind of the object. Each is a bug.
# TYPE portolan_guard_panics_total counter
portolan_guard_panics_total{kind="Service"} %d
`, len(failing), panics)
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(expected)); err != nil {
		w.t.Error(err)
	}
	warnings := strings.Join(w.health.Warnings(), "\n")
	if (warnings != "") != (len(failing) > 0) || w.health.Ready() != nil {
		w.t.Errorf("warnings %q, ready %v, want %d objects in a warning", warnings, w.health.Ready(), len(failing))
	}
	for _, o := range failing {
		if !strings.Contains(warnings, o.String()) {
			w.t.Errorf("warnings %q do not name %s", warnings, o)
		}
	}
}

// TestAPanicIsReportedOnceAndEndsWithTheNextSuccess checks everything that a person can see of a panic.
func TestAPanicIsReportedOnceAndEndsWithTheNextSuccess(t *testing.T) {
	w := newWorld(t)
	err := w.panics("plan", web, "broken")
	caught, ok := errors.AsType[*guard.Panic](err)
	if !ok || caught.Step != "plan" || caught.About != web || caught.Value != "broken" || apierr.Code(err) != codes.Internal {
		t.Errorf("error %v", err)
	}
	w.want(1, web)
	if !strings.Contains(w.log.String(), `"level":"ERROR"`) || !strings.Contains(w.log.String(), "guard_test.go") || !strings.Contains(w.log.String(), "shop/web") {
		t.Errorf("log %s", &w.log)
	}
	w.panics("plan", web, "broken")
	w.panics("plan", api, "broken")
	w.want(3, web, api)
	if len(w.events) != 2 || !strings.HasPrefix(w.events[0], "Service shop/web Panicked plan: panic: broken: ") {
		t.Errorf("events %q, want one for each object", w.events)
	}
	w.panics("plan", web, "broken in another way")
	if len(w.events) != 3 {
		t.Errorf("events %q, want one more for another panic", w.events)
	}
	w.succeeds("plan", web)
	w.want(4, api)
	w.succeeds("plan", api)
	w.want(4)
}

// TestStepsFailApart checks that the success of one step does not hide the panic of another, and that errors are
// no panics.
func TestStepsFailApart(t *testing.T) {
	w := newWorld(t)
	w.panics("plan", web, "broken")
	w.succeeds("view", web)
	w.want(1, web)
	w.panics("view", web, "broken")
	w.want(2, web)
	w.succeeds("plan", web)
	w.want(2, web)
	refused := errors.New("refused")
	if err := w.Do("view", web, func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	w.want(2)
}

// TestForgottenObjectsAreNotNamed checks that a replica names no objects that another replica works on.
func TestForgottenObjectsAreNotNamed(t *testing.T) {
	w := newWorld(t)
	w.panics("sync", web, "broken")
	w.panics("sync", api, "broken")
	w.panics("view", api, "broken")
	w.Forget("sync", func(o guard.Object) bool { return o == web })
	w.want(3, api)
	w.Forget("sync", func(guard.Object) bool { return true })
	w.want(3, api)
}

// TestForgetDoesNotHoldTheLock lets match wait for a lock that is held while an object panics, as a view does.
func TestForgetDoesNotHoldTheLock(t *testing.T) {
	w := newWorld(t)
	w.panics("announce", web, "broken")
	var view sync.Mutex
	began, done := make(chan struct{}), make(chan struct{})
	view.Lock()
	go func() {
		defer close(done)
		w.Forget("announce", func(guard.Object) bool {
			close(began)
			view.Lock()
			defer view.Unlock()
			return true
		})
	}()
	<-began
	w.panics("view", api, "broken")
	view.Unlock()
	<-done
	w.want(2, api)
	if !w.Failing("announce", "view") || w.Failing("announce") {
		t.Error("Failing reports other steps")
	}
}

// TestManyObjectsAreCounted checks that the warning stays short.
func TestManyObjectsAreCounted(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		w.panics("view", guard.Object{Kind: "Node", Name: fmt.Sprintf("n%02d", i)}, "broken")
	}
	if got := strings.Join(w.health.Warnings(), ""); strings.Count(got, "Node") != 10 || !strings.HasSuffix(got, "and 15 more") {
		t.Errorf("warning %q", got)
	}
}

// TestANilGuardCatchesNothing checks that tests of parts see their panics.
func TestANilGuardCatchesNothing(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic was caught")
		}
	}()
	var g *guard.Guard
	g.Do("view", web, func() error { panic("broken") })
}

// TestGuardedWorkAllocatesNothing checks that the guard is free on the way of each change.
func TestGuardedWorkAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	sum := 0
	if got := testing.AllocsPerRun(100, func() {
		for i := range 100 {
			w.Run("view", web, func() { sum += i })
		}
	}); got != 0 {
		t.Errorf("%v allocations for 100 pieces of work", got)
	}
}

func BenchmarkDo(b *testing.B) {
	g := guard.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), health.New(slog.New(slog.DiscardHandler)))
	sum := 0
	for b.Loop() {
		g.Do("view", web, func() error { sum++; return nil })
	}
}
