package gc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/gc"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
)

// event creates an event.
func (f *fixture) event(name string) {
	f.t.Helper()
	f.create(&corev1.Event{
		Metadata:  &corev1.ObjectMeta{Name: name},
		Regarding: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
		Reason:    "Tested", Message: name,
	})
}

// events returns the names of the present events.
func (f *fixture) events() []string {
	var names []string
	for item := range f.View.State().All("Event", "default") {
		names = append(names, item.Key.Name)
	}
	slices.Sort(names)
	return names
}

func (f *fixture) reap(config gc.ReaperConfig) *gc.Reaper {
	f.t.Helper()
	config.Store, config.Log, config.Metrics, config.Every = f.store, kittest.Logger(f.t), obs.NewMetrics(), time.Minute
	r := gc.NewReaper(config)
	r.Use(f.View, f.Writer)
	f.reaper.Store(r)
	kittest.Run(f.t, "reaper", r.Run)
	return r
}

// manyEvents limits nothing but the number of events.
func manyEvents(n int) gc.EventLimits { return gc.EventLimits{Number: n, PerWriter: n, Bytes: 1 << 20} }

func (f *fixture) wantEvents(when string, want ...string) {
	f.t.Helper()
	synctest.Wait()
	if got := f.events(); !slices.Equal(got, want) {
		f.t.Errorf("%s: events %v, want %v", when, got, want)
	}
}

// TestEventsGoWhenTheyAreOld checks that an event is kept for its time to live, also if it was
// created after the reaper started.
func TestEventsGoWhenTheyAreOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.event("older")
		time.Sleep(2 * time.Second)
		f.event("younger")
		time.Sleep(time.Hour - time.Second)
		f.event("fresh")
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: manyEvents(10), Retention: 1000, LogBytes: 1 << 20})
		f.wantEvents("at the first look", "fresh", "younger")
		time.Sleep(time.Minute)
		f.wantEvents("a minute later", "fresh")
		time.Sleep(58 * time.Minute)
		f.wantEvents("after 59 minutes", "fresh")
		time.Sleep(2 * time.Minute)
		f.wantEvents("after 61 minutes")
	})
}

// TestTokensGoAWeekAfterTheirEnd checks that expired Tokens are kept for a week, and others stay.
func TestTokensGoAWeekAfterTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		const week = 7 * 24 * time.Hour
		for name, life := range map[string]time.Duration{"first": -week, "second": time.Minute - week, "third": time.Hour - week, "valid": week} {
			token := &corev1.Token{Metadata: &corev1.ObjectMeta{Name: name, Uid: name}, Spec: &corev1.TokenSpec{Identity: "viewer", Expires: timestamppb.New(time.Now().Add(life))}}
			data, err := store.Encode(token)
			if err != nil {
				t.Fatal(err)
			}
			// The writer refuses a token that has expired.
			if _, err := f.store.Submit(t.Context(), store.Op{Action: store.Create, Key: object.KeyOf(token), UID: name, Data: data, Object: token}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second) // the view looks for changes every second
		want := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var names []string
			for item := range f.View.State().All("Token", "") {
				names = append(names, item.Key.Name)
			}
			if slices.Sort(names); !slices.Equal(names, want) {
				t.Errorf("%s: %q, want %q", when, names, want)
			}
		}
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: manyEvents(10), Retention: 1000, LogBytes: 1 << 20})
		want("at once", "second", "third", "valid")
		time.Sleep(time.Minute)
		want("a minute later", "third", "valid")
	})
}

// TestOldestEventsGoWhenThereAreTooMany checks that only events within their time to live count
// towards the limit.
func TestOldestEventsGoWhenThereAreTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.event("old")
		time.Sleep(2 * time.Hour)
		for n := range 5 {
			f.event(fmt.Sprint("e", n))
			time.Sleep(time.Minute)
		}
		f.event("f2")
		f.event("f1") // events with the same time are removed in the order in which they were written
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: manyEvents(7), Retention: 1000, LogBytes: 1 << 20})
		f.wantEvents("as many as may be", "e0", "e1", "e2", "e3", "e4", "f1", "f2")
		for n := range 6 {
			f.event(fmt.Sprint("g", n))
		}
		time.Sleep(time.Minute)
		f.wantEvents("six more", "f1", "g0", "g1", "g2", "g3", "g4", "g5")
	})
}

// TestLogIsPrunedInSteps checks that the log keeps the retention, and is pruned only when it
// exceeds the retention by a tenth.
func TestLogIsPrunedInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: manyEvents(10), Retention: 20, LogBytes: 1 << 20})
		kept := func() uint64 {
			head, err := f.store.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return head.Revision - head.Oldest
		}
		for n := kept(); n < 21; n++ {
			f.lease(fmt.Sprint("lease-", n), nil)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := kept(); n != 21 {
			t.Errorf("%d changes are kept, want 21: it is less than a tenth too many", n)
		}
		f.lease("one-more", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := kept(); n != 20 {
			t.Errorf("%d changes are kept, want 20", n)
		}
	})
}

// TestLogIsPrunedBySize checks that a log of few but large changes keeps its budget, and that the
// log that the reaper finds at its start counts too.
func TestLogIsPrunedBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		const budget = 100 << 10
		large := func(n int) {
			f.create(&corev1.Lease{Metadata: &corev1.ObjectMeta{
				Name: fmt.Sprint("large-", n), Annotations: map[string]string{"data": strings.Repeat("x", 20<<10)},
			}})
		}
		check := func(when string, prunes bool) {
			t.Helper()
			synctest.Wait()
			size, _, err := f.store.LogSize(t.Context(), budget)
			if err != nil || size > budget {
				t.Errorf("%s: the log has %d bytes, %v", when, size, err)
			}
			head, err := f.store.Head(t.Context())
			if err != nil || (head.Oldest > 0) != prunes {
				t.Errorf("%s: the log begins after %d, %v", when, head.Oldest, err)
			}
		}
		for n := range 4 {
			large(n)
		}
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: manyEvents(10), Retention: 1000, LogBytes: budget})
		check("80 KiB at the start", false)
		for n := range 10 {
			large(4 + n)
		}
		time.Sleep(time.Minute)
		check("200 KiB more", true)
	})
}

// TestOneWriterCannotDropTheEventsOfOthers has one writer write more events, and larger ones, than
// there may be.
func TestOneWriterCannotDropTheEventsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.event("other")
		for n := range 20 {
			time.Sleep(time.Second)
			f.create(&corev1.Event{
				Metadata:  &corev1.ObjectMeta{Name: fmt.Sprintf("n1-%02d", n)},
				Regarding: &corev1.ObjectReference{Kind: "Node", Name: "n1"}, ReportingComponent: "nodeagent", ReportingInstance: "n1",
				Reason: "Tested", Message: fmt.Sprint(n, strings.Repeat("x", 1000)),
			})
		}
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: gc.EventLimits{Number: 10, PerWriter: 5, Bytes: 1 << 20}, Retention: 1000, LogBytes: 1 << 20})
		f.wantEvents("by number", "n1-15", "n1-16", "n1-17", "n1-18", "n1-19", "other")
		f.reap(gc.ReaperConfig{EventTTL: time.Hour, Events: gc.EventLimits{Number: 10, PerWriter: 5, Bytes: 6 << 10}, Retention: 1000, LogBytes: 1 << 20})
		f.wantEvents("by size", "n1-18", "n1-19", "other")
	})
}
