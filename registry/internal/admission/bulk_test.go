package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// SubmitMany makes the store fail like Submit.
func (b *breaking) SubmitMany(ctx context.Context, ops []store.Op) []batch.Outcome[store.Result] {
	b.many = append(b.many, len(ops))
	if race := b.race; race != nil {
		b.race = nil
		race()
	}
	if err := b.before.Load(); err != nil {
		return batch.Fail[store.Result](len(ops), *err)
	}
	outcomes := b.Store.SubmitMany(ctx, ops)
	if lost := b.after.Load(); lost != nil {
		return batch.Fail[store.Result](len(ops), *lost)
	}
	return outcomes
}

// pod returns a pod with a label.
func pod(name, label string) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": label}},
		Spec:     &corev1.PodSpec{Containers: []*corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// at returns an object with the resource version and UID of another.
func at[T object.Object](o, seen T) T {
	meta := object.MetaOf(o)
	meta.ResourceVersion, meta.Uid = seen.GetMetadata().GetResourceVersion(), seen.GetMetadata().GetUid()
	return o
}

func write(action admission.Action, o object.Object) admission.Write {
	w := admission.Write{Action: action, Key: object.KeyOf(o), Object: o}
	if action == admission.Delete {
		w.Object, w.Deletion = nil, admission.Deletion{UID: o.GetMetadata().GetUid(), Revision: o.GetMetadata().GetResourceVersion()}
	}
	return w
}

// TestBulkIsOneCommit writes a thousand objects.
func TestBulkIsOneCommit(t *testing.T) {
	f := newFixture(t)
	writes := make([]admission.Write, 1000)
	for i := range writes {
		writes[i] = write(admission.Create, pod(fmt.Sprint("p", i), "a"))
	}
	for i, outcome := range f.WriteMany(t.Context(), writes, admission.Options{}) {
		if outcome.Err != nil || !outcome.Result.Created || f.View.State().Get(writes[i].Key) == nil {
			t.Fatalf("write %d: %+v", i, outcome)
		}
	}
	if got := fmt.Sprint(f.store.many); got != "[1000]" {
		t.Errorf("commits of %s writes", got)
	}
}

// TestBulkLosesRaces changes the objects of a bulk write just before its commit. A write without a version
// is made on the newer version; others fail.
func TestBulkLosesRaces(t *testing.T) {
	f := newFixture(t)
	stored := map[string]*corev1.Pod{}
	for _, name := range []string{"any", "versioned", "deleted", "kept", "gone", "applied"} {
		stored[name], _ = f.must(t, pod(name, "old")).(*corev1.Pod)
	}
	f.store.race = func() {
		for _, name := range []string{"any", "versioned", "deleted", "kept", "applied"} {
			if _, err := f.Update(t.Context(), pod(name, "theirs"), admission.Options{}); err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{"new", "new-applied"} {
			f.must(t, pod(name, "theirs"))
		}
		if _, err := f.Delete(t.Context(), object.KeyOf(stored["gone"]), admission.Deletion{}, admission.Options{}); err != nil {
			t.Error(err)
		}
	}
	steps := []struct {
		write admission.Write
		err   func(error) bool // nil: the write succeeds
	}{
		{write(admission.Update, pod("any", "ours")), nil},
		{write(admission.Update, at(pod("versioned", "ours"), stored["versioned"])), apierr.IsConflict},
		{write(admission.Delete, pod("deleted", "")), nil},
		{write(admission.Delete, stored["kept"]), apierr.IsConflict},
		{write(admission.Update, pod("gone", "ours")), apierr.IsNotFound},
		{write(admission.Apply, pod("applied", "ours")), nil},
		{write(admission.Create, pod("new", "ours")), apierr.IsAlreadyExists},
		{write(admission.Apply, pod("new-applied", "ours")), nil},
		{write(admission.Create, pod("other", "ours")), nil},
	}
	writes := make([]admission.Write, len(steps))
	for i, step := range steps {
		writes[i] = step.write
	}
	for i, outcome := range f.WriteMany(t.Context(), writes, admission.Options{}) {
		key := steps[i].write.Key
		switch want := steps[i].err; {
		case want != nil && !want(outcome.Err):
			t.Errorf("%s: %v", key, outcome.Err)
		case want == nil && outcome.Err != nil:
			t.Errorf("%s: %v", key, outcome.Err)
		}
		if item := f.View.State().Get(key); steps[i].err == nil && steps[i].write.Action != admission.Delete && item.Object.GetMetadata().GetLabels()["app"] != "ours" {
			t.Errorf("%s is %v", key, item.Object)
		}
	}
	if f.View.State().Get(object.KeyOf(stored["deleted"])) != nil || f.View.State().Get(object.KeyOf(stored["kept"])) == nil {
		t.Error("the wrong pod was deleted")
	}
}

// TestBulkFailures checks the outcomes of a commit that failed, and of one with an unknown outcome.
func TestBulkFailures(t *testing.T) {
	f := newFixture(t)
	for name, way := range map[string]struct {
		at   *atomic.Pointer[error]
		want error
	}{"refused": {&f.store.before, store.ErrUnavailable}, "unknown": {&f.store.after, store.ErrUnknown}} {
		fail(way.at, way.want, func() {
			for _, outcome := range f.WriteMany(t.Context(), []admission.Write{write(admission.Create, pod(name, "a")), write(admission.Create, pod(name+"2", "a"))}, admission.Options{}) {
				if !errors.Is(outcome.Err, way.want) || outcome.Result != nil {
					t.Errorf("%s: %+v", name, outcome)
				}
			}
		})
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, outcome := range f.WriteMany(canceled, []admission.Write{write(admission.Create, pod("canceled", "a")), write(admission.Delete, pod("canceled", "a"))}, admission.Options{}) {
		if !errors.Is(outcome.Err, context.Canceled) {
			t.Errorf("canceled: %+v", outcome)
		}
	}
	if f.View.State().Get(object.Key{Kind: "Pod", Namespace: "default", Name: "refused"}) != nil {
		t.Error("a refused pod is stored")
	}
}

// TestBulkServicesHaveTheirValues creates services that need values together with others that do not. A
// service that fails must leave no value allocated.
func TestBulkServicesHaveTheirValues(t *testing.T) {
	f := newFixture(t)
	named := func(name, ip string) *corev1.Service {
		svc := service(corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP)
		svc.Metadata.Name, svc.Metadata.Namespace, svc.Spec.ClusterIp = name, "default", ip
		return svc
	}
	outcomes := f.WriteMany(t.Context(), []admission.Write{
		write(admission.Create, named("a", "")), write(admission.Create, named("headless", "None")), write(admission.Apply, named("b", "")), write(admission.Create, named("taken", "10.96.77.1")),
	}, admission.Options{})
	for i, outcome := range outcomes[:3] {
		if outcome.Err != nil {
			t.Fatalf("service %d: %v", i, outcome.Err)
		}
	}
	if violations := apierr.ViolationsOf(outcomes[3].Err); len(violations) != 1 {
		t.Errorf("an address outside the range: %v", outcomes[3].Err)
	}
	if n := f.allocator.Used(); n != 2 {
		t.Errorf("%d values are allocated, want 2", n)
	}
	if got := fmt.Sprint(f.store.many); got != "[1]" {
		t.Errorf("commits of %s writes, want the headless service alone", got)
	}
	for i, outcome := range f.WriteMany(t.Context(), []admission.Write{
		write(admission.Delete, named("a", "")), write(admission.Delete, named("headless", "")), write(admission.Delete, named("b", "")),
	}, admission.Options{}) {
		if outcome.Err != nil || !outcome.Result.Removed {
			t.Errorf("deletion %d: %+v", i, outcome)
		}
	}
	if n := f.allocator.Used(); n != 0 {
		t.Errorf("%d values stay allocated", n)
	}
}

// TestBulkPanicsInItsCaller checks that a panic of a write that is made beside the others reaches
// the caller, because the server recovers from it there.
func TestBulkPanicsInItsCaller(t *testing.T) {
	f := newFixture(t)
	broken := func() { panic("broken on purpose") }
	f.store.committed.Store(&broken)
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "broken on purpose") {
			t.Errorf("it panicked with %q", p)
		}
	}()
	event := &corev1.Event{Metadata: &corev1.ObjectMeta{Name: "e", Namespace: "default"}, Regarding: &corev1.ObjectReference{Kind: "Node", Name: "n"}, Reason: "Tested", Message: "m", ReportingComponent: "test"}
	f.WriteMany(t.Context(), []admission.Write{write(admission.Create, event)}, admission.Options{})
	t.Error("it did not panic")
}
